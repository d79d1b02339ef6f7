/*
 * Load generator on libiscsi, which shows the speed of an ordinary user-space initiator (QEMU's,
 * Proxmox's).
 *
 * It has one thread, one poll loop over all sessions, and a fixed number of commands outstanding
 * per session. Tasks and buffers are allocated once and used again, so that only the library's own
 * cost remains. It prints "started" when the measured period begins (the caller then samples the
 * target's CPU time), and one line of JSON when the period has ended.
 *
 * Built by `cargo xtask bench` with: cc -O2 libiscsi_load.c -liscsi
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>

/* Latency histogram: 32 linear steps in each power of two of nanoseconds, so within 3 %. */
#define STEPS_LOG2 5
#define STEPS (1u << STEPS_LOG2)
#define BUCKETS (64u << STEPS_LOG2)

struct session;

/* Slot of one outstanding command, which is sent again as soon as it is answered. */
struct slot {
	struct scsi_task task;
	struct scsi_iovec iov;
	struct session *session;
	uint64_t sent_ns;
};

struct session {
	struct iscsi_context *iscsi;
	struct slot *slots;
	int in_flight;
	uint64_t next_block;
};

static struct {
	const char *url;
	int is_write;
	int is_random;
	uint32_t block;
	int depth;
	int sessions;
	double warmup_s;
	double seconds;
	int header_digest;
} options = { .block = 4096, .is_random = 1, .depth = 32, .sessions = 1, .warmup_s = 0.5, .seconds = 4 };

static int lun;
static uint32_t block_length;  /* of the unit, in bytes */
static uint64_t positions;     /* transfers of options.block that fit in the unit */
static uint64_t seed = 0x9e3779b97f4a7c15u;
static uint64_t histogram[BUCKETS];
static uint64_t finished;      /* transfers completed in the measured period */
static uint64_t retries;
static uint64_t now_ns;
static int measuring;
static int stopping;
static int failed;

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t next_random(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * 0x2545f4914f6cdd1du;
}

static unsigned bucket_of(uint64_t ns)
{
	unsigned top;

	if (ns < STEPS)
		return (unsigned)ns;
	top = 63u - (unsigned)__builtin_clzll(ns);
	return ((top - STEPS_LOG2 + 1) << STEPS_LOG2) + (unsigned)((ns >> (top - STEPS_LOG2)) - STEPS);
}

static double bucket_us(unsigned bucket)
{
	unsigned shift;

	if (bucket < STEPS)
		return bucket / 1000.0;
	shift = (bucket >> STEPS_LOG2) - 1;
	return (double)((uint64_t)((bucket & (STEPS - 1)) + STEPS) << shift) / 1000.0;
}

static double percentile_us(double share)
{
	uint64_t seen = 0, wanted = (uint64_t)(share * (double)finished);
	unsigned i;

	for (i = 0; i < BUCKETS; i++) {
		seen += histogram[i];
		if (seen > wanted)
			return bucket_us(i);
	}
	return 0;
}

static void send_slot(struct slot *slot);

static void answered(struct iscsi_context *iscsi, int status, void *command_data, void *private_data)
{
	struct slot *slot = private_data;
	struct scsi_task *task = command_data;
	uint64_t now = clock_ns();

	slot->session->in_flight--;
	now_ns = now;
	if (status != SCSI_STATUS_GOOD) {
		/* A unit attention of a reset or a new session is not an error of the transfer. */
		if (status == SCSI_STATUS_BUSY || status == SCSI_STATUS_TASK_SET_FULL ||
		    (status == SCSI_STATUS_CHECK_CONDITION && task->sense.key == SCSI_SENSE_UNIT_ATTENTION)) {
			retries++;
		} else {
			fprintf(stderr, "transfer failed: status %d: %s\n", status, iscsi_get_error(iscsi));
			failed = 1;
			return;
		}
	} else if (measuring) {
		finished++;
		histogram[bucket_of(now - slot->sent_ns)]++;
	}
	if (!stopping)
		send_slot(slot);
}

static void put_u32(unsigned char *at, uint32_t value)
{
	at[0] = (unsigned char)(value >> 24);
	at[1] = (unsigned char)(value >> 16);
	at[2] = (unsigned char)(value >> 8);
	at[3] = (unsigned char)value;
}

static void send_slot(struct slot *slot)
{
	struct session *session = slot->session;
	struct scsi_task *task = &slot->task;
	uint64_t position;

	if (options.is_random) {
		position = (uint64_t)(((unsigned __int128)next_random() * positions) >> 64);
	} else {
		position = session->next_block;
		session->next_block = position + 1 == positions ? 0 : position + 1;
	}
	put_u32(&task->cdb[2], (uint32_t)(position * (options.block / block_length)));
	/* Rewind the vectors: the library advances them and exports no call for it. */
	task->iovector_in.offset = task->iovector_out.offset = 0;
	task->iovector_in.consumed = task->iovector_out.consumed = 0;
	slot->sent_ns = now_ns;
	if (iscsi_scsi_command_async(session->iscsi, lun, task, answered, NULL, slot) != 0) {
		fprintf(stderr, "cannot send: %s\n", iscsi_get_error(session->iscsi));
		failed = 1;
		return;
	}
	session->in_flight++;
}

/* READ(10) or WRITE(10); the LBA is set for each transfer. */
static void prepare_slot(struct slot *slot, struct session *session)
{
	uint32_t blocks = options.block / block_length;
	struct scsi_task *task = &slot->task;

	slot->session = session;
	if (posix_memalign(&slot->iov.iov_base, 4096, options.block) != 0)
		abort();
	memset(slot->iov.iov_base, 0x5a, options.block);
	slot->iov.iov_len = options.block;
	task->cdb_size = 10;
	task->cdb[0] = options.is_write ? SCSI_OPCODE_WRITE10 : SCSI_OPCODE_READ10;
	task->cdb[7] = (unsigned char)(blocks >> 8);
	task->cdb[8] = (unsigned char)blocks;
	task->xfer_dir = options.is_write ? SCSI_XFER_WRITE : SCSI_XFER_READ;
	task->expxferlen = (int)options.block;
	if (options.is_write)
		scsi_task_set_iov_out(task, &slot->iov, 1);
	else
		scsi_task_set_iov_in(task, &slot->iov, 1);
}

static struct iscsi_context *log_in(int number)
{
	char name[96];
	struct iscsi_context *iscsi;
	struct iscsi_url *url;

	snprintf(name, sizeof(name), "iqn.2026-01.org.example:libiscsi-load-%d", number);
	iscsi = iscsi_create_context(name);
	if (iscsi == NULL)
		return NULL;
	url = iscsi_parse_full_url(iscsi, options.url);
	if (url == NULL) {
		fprintf(stderr, "%s\n", iscsi_get_error(iscsi));
		return NULL;
	}
	iscsi_set_targetname(iscsi, url->target);
	iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
	iscsi_set_header_digest(iscsi, options.header_digest ? ISCSI_HEADER_DIGEST_CRC32C : ISCSI_HEADER_DIGEST_NONE);
	iscsi_set_noautoreconnect(iscsi, 1);
	lun = url->lun;
	if (iscsi_full_connect_sync(iscsi, url->portal, url->lun) != 0) {
		fprintf(stderr, "login failed: %s\n", iscsi_get_error(iscsi));
		iscsi_destroy_url(url);
		return NULL;
	}
	iscsi_destroy_url(url);
	return iscsi;
}

static int read_capacity(struct iscsi_context *iscsi)
{
	struct scsi_task *task;
	struct scsi_readcapacity16 *capacity;
	int tries;

	for (tries = 0; tries < 8; tries++) {
		task = iscsi_readcapacity16_sync(iscsi, lun);
		if (task == NULL)
			break;
		if (task->status == SCSI_STATUS_GOOD && (capacity = scsi_datain_unmarshall(task)) != NULL) {
			block_length = capacity->block_length;
			positions = (capacity->returned_lba + 1) * block_length / options.block;
			scsi_free_scsi_task(task);
			return positions == 0 || options.block % block_length != 0;
		}
		scsi_free_scsi_task(task);
	}
	fprintf(stderr, "READ CAPACITY(16) failed: %s\n", iscsi_get_error(iscsi));
	return 1;
}

/* Serves every session until `until`, or until all are quiet if `until` is 0. */
static int serve(struct session *sessions, struct pollfd *fds, uint64_t until)
{
	int i, in_flight;

	for (;;) {
		in_flight = 0;
		for (i = 0; i < options.sessions; i++) {
			fds[i].fd = iscsi_get_fd(sessions[i].iscsi);
			fds[i].events = (short)iscsi_which_events(sessions[i].iscsi);
			in_flight += sessions[i].in_flight;
		}
		if (failed || (until == 0 && in_flight == 0))
			return failed;
		if (poll(fds, (nfds_t)options.sessions, 5000) <= 0) {
			fprintf(stderr, "no answer within 5 s\n");
			return 1;
		}
		now_ns = clock_ns();
		for (i = 0; i < options.sessions; i++) {
			struct iscsi_context *iscsi = sessions[i].iscsi;

			if (fds[i].revents == 0)
				continue;
			if (iscsi_service(iscsi, fds[i].revents) < 0 ||
			    ((iscsi_which_events(iscsi) & POLLOUT) && iscsi_service(iscsi, POLLOUT) < 0)) {
				fprintf(stderr, "session lost: %s\n", iscsi_get_error(iscsi));
				return 1;
			}
		}
		if (until != 0 && now_ns >= until)
			return failed;
	}
}

static double own_cpu_s(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int run(struct session *sessions, struct pollfd *fds)
{
	uint64_t start, end, ios;
	double cpu_s;
	int i, k;

	now_ns = clock_ns();
	for (i = 0; i < options.sessions; i++)
		for (k = 0; k < options.depth; k++)
			send_slot(&sessions[i].slots[k]);
	if (serve(sessions, fds, clock_ns() + (uint64_t)(options.warmup_s * 1e9) + 1))
		return 1;

	printf("started\n");
	fflush(stdout);
	cpu_s = own_cpu_s();
	start = clock_ns();
	measuring = 1;
	if (serve(sessions, fds, start + (uint64_t)(options.seconds * 1e9)))
		return 1;
	measuring = 0;
	end = clock_ns();
	ios = finished;
	cpu_s = own_cpu_s() - cpu_s;
	printf("{\"ios\":%" PRIu64 ",\"seconds\":%.6f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"client_cpu_s\":%.6f,\"retries\":%" PRIu64 "}\n",
	       ios, (double)(end - start) / 1e9, percentile_us(0.5), percentile_us(0.99), cpu_s, retries);
	fflush(stdout);

	stopping = 1;
	if (serve(sessions, fds, 0))
		return 1;
	for (i = 0; i < options.sessions; i++)
		iscsi_logout_sync(sessions[i].iscsi);
	return 0;
}

static int parse(int argc, char **argv)
{
	static const struct option known[] = {
		{ "url", required_argument, NULL, 'u' },     { "op", required_argument, NULL, 'o' },
		{ "pattern", required_argument, NULL, 'p' }, { "block", required_argument, NULL, 'b' },
		{ "depth", required_argument, NULL, 'd' },   { "sessions", required_argument, NULL, 'n' },
		{ "warmup", required_argument, NULL, 'w' },  { "seconds", required_argument, NULL, 's' },
		{ "header-digest", no_argument, NULL, 'g' }, { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'u': options.url = optarg; break;
		case 'o': options.is_write = strcmp(optarg, "write") == 0; break;
		case 'p': options.is_random = strcmp(optarg, "random") == 0; break;
		case 'b': options.block = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'd': options.depth = atoi(optarg); break;
		case 'n': options.sessions = atoi(optarg); break;
		case 'w': options.warmup_s = atof(optarg); break;
		case 's': options.seconds = atof(optarg); break;
		case 'g': options.header_digest = 1; break;
		default: return 1;
		}
	}
	return options.url == NULL || options.block == 0 || options.depth < 1 || options.sessions < 1;
}

int main(int argc, char **argv)
{
	struct session *sessions;
	struct pollfd *fds;
	int i, k;

	if (parse(argc, argv)) {
		fprintf(stderr, "usage: %s --url iscsi://HOST:PORT/IQN/LUN [--op read|write] [--pattern random|sequential]\n"
				"  [--block BYTES] [--depth N] [--sessions N] [--warmup S] [--seconds S] [--header-digest]\n", argv[0]);
		return 2;
	}
	sessions = calloc((size_t)options.sessions, sizeof(*sessions));
	fds = calloc((size_t)options.sessions, sizeof(*fds));
	if (sessions == NULL || fds == NULL)
		return 1;
	for (i = 0; i < options.sessions; i++) {
		sessions[i].iscsi = log_in(i);
		if (sessions[i].iscsi == NULL || (i == 0 && read_capacity(sessions[i].iscsi)))
			return 1;
		/* Sequential streams start apart, so that sessions read different blocks. */
		sessions[i].next_block = positions / (uint64_t)options.sessions * (uint64_t)i;
		fds[i].events = POLLIN;
		sessions[i].slots = calloc((size_t)options.depth, sizeof(struct slot));
		if (sessions[i].slots == NULL)
			return 1;
		for (k = 0; k < options.depth; k++)
			prepare_slot(&sessions[i].slots[k], &sessions[i]);
	}
	return run(sessions, fds);
}
