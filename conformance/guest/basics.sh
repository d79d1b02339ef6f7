# Functions that all scripts of guests share.
set -eu

note() { echo "== $(cut -d' ' -f1 /proc/uptime) $*"; }
fail() { echo "FAILED: $*"; exit 1; }
now_s() { cut -d. -f1 /proc/uptime; }

# host WORDS…: asks the host, prints its answer, and fails if the host fails.
host() {
    local answer
    {
        flock 9
        echo "$*" >&3
        IFS= read -r -t 60 answer <&3 || answer="error no answer"
    } 9>/run/host.lock
    case $answer in
        ok*) echo "${answer#ok }" ;;
        *) echo "host $*: $answer" >&2; return 1 ;;
    esac
}

# until_true TRIES COMMAND…: runs COMMAND every 0.2 s until it succeeds, TRIES times at most.
until_true() {
    local tries=$1
    shift
    for ((; tries > 0; tries--)); do
        "$@" && return 0
        sleep 0.2
    done
    return 1
}
