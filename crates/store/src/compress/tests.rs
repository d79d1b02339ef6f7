//! Tests of compression: packed data comes back, a block without gain stays as it is, and foreign
//! bytes never do harm.

use proptest::prelude::*;

use super::*;

const BOTH: [Compression; 2] = [Compression::Lz4, Compression::Zstd];

/// Packs a block, and checks that the checksum is that of the bytes that are written.
fn pack(compression: Compression, level: i32, data: &Pages) -> Option<Pages> {
    for algorithm in [Algorithm::Off, Algorithm::Xxh3, Algorithm::Blake3] {
        let Payload { packed, checksum } = super::pack(compression, level, algorithm, data);
        let written = packed.as_ref().unwrap_or(data);
        assert_eq!(checksum, checksum::of(algorithm, written), "{algorithm:?}");
    }
    super::pack(compression, level, Algorithm::Xxh3, data).packed
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
        })
        .collect()
}

/// Returns noise in Base64: no repetitions, but only 6 bits in each byte.
fn noise_of_64_letters(len: usize) -> Vec<u8> {
    noise(len, 7).iter().map(|byte| b'0' + byte % 64).collect()
}

fn text(len: usize) -> Vec<u8> {
    (0_u64..)
        .flat_map(|line| format!("{line}: sector {} is at home\n", line * 7919 % 1000).into_bytes())
        .take(len)
        .collect()
}

fn assert_round_trip(compression: Compression, plain: &[u8]) -> usize {
    let data = Pages::from_bytes(plain);
    match pack(compression, 3, &data) {
        None => data.len().div_ceil(SECTOR_SIZE),
        Some(packed) => {
            assert!(packed.len().is_multiple_of(SECTOR_SIZE), "whole sectors");
            assert!(
                packed.len() / SECTOR_SIZE < plain.len().div_ceil(SECTOR_SIZE),
                "a sector is saved"
            );
            let back = unpack(compression, &packed, plain.len()).expect("was packed");
            assert!(back == *plain, "{compression:?} of {} bytes", plain.len());
            packed.len() / SECTOR_SIZE
        }
    }
}

#[test]
fn text_is_packed_by_both() {
    for len in [8192, 16_384, 65_534, 65_535, 65_536, 131_072, MAX_BLOCK] {
        for compression in BOTH {
            let sectors = assert_round_trip(compression, &text(len));
            assert!(
                sectors <= (len / SECTOR_SIZE).div_ceil(2),
                "{compression:?}: {len} bytes of text became {sectors} sectors"
            );
        }
    }
}

#[test]
fn what_saves_no_sector_is_left_alone() {
    for compression in BOTH {
        for len in [1, 4096, 8192, 16_384, 131_072] {
            let data = Pages::from_bytes(&noise(len, 3));
            assert!(pack(compression, 3, &data).is_none(), "noise of {len}");
        }
        let one_sector = Pages::from_bytes(&text(4096));
        assert!(pack(compression, 3, &one_sector).is_none());
        let too_long = Pages::zeroes(MAX_BLOCK as u32 + 1);
        assert!(pack(compression, 3, &too_long).is_none());
        assert!(pack(compression, 3, &Pages::new()).is_none());
    }
    assert!(pack(Compression::Off, 3, &Pages::zeroes(16_384)).is_none());
}

#[test]
fn a_block_that_is_half_noise_saves_its_other_half() {
    for compression in BOTH {
        for len in [16_384, 131_072] {
            for text_first in [false, true] {
                let mut halves = [noise(len / 2, 5), text(len / 2)];
                if text_first {
                    halves.reverse();
                }
                let sectors = assert_round_trip(compression, &halves.concat());
                assert!(sectors < len / SECTOR_SIZE, "{compression:?}, {len}");
            }
        }
    }
}

#[test]
fn zstd_codes_what_has_no_repetitions_but_few_letters() {
    for len in [32_768, 131_072] {
        let plain = noise_of_64_letters(len);
        assert_eq!(
            assert_round_trip(Compression::Lz4, &plain),
            len / SECTOR_SIZE
        );
        let sectors = assert_round_trip(Compression::Zstd, &plain);
        assert!(sectors <= len / SECTOR_SIZE * 7 / 8, "{sectors} sectors");
    }
}

#[test]
fn only_blocks_that_coding_can_shorten_are_said_to_gain() {
    for (len, sectors) in [(16_384, 4), (131_072, 32)] {
        let most = (sectors - 1) * SECTOR_SIZE - PREFIX;
        for seed in 0..200 {
            assert!(!may_gain_by_coding(&noise(len, seed), most), "seed {seed}");
        }
        assert!(may_gain_by_coding(
            &noise_of_64_letters(131_072),
            31 * SECTOR_SIZE
        ));
        assert!(may_gain_by_coding(&text(len), most));
        assert!(may_gain_by_coding(&vec![9; len], most));
    }
}

#[test]
fn every_level_of_zstd_packs_and_strange_ones_are_taken_as_the_nearest() {
    let plain = text(32_768);
    let data = Pages::from_bytes(&plain);
    let of_level = |level| pack(Compression::Zstd, level, &data).expect("text");
    for level in ZSTD_LEVELS {
        let back = unpack(Compression::Zstd, &of_level(level), plain.len());
        assert!(back.expect("was packed") == plain, "level {level}");
    }
    assert!(of_level(i32::MIN) == of_level(1).to_vec());
    assert!(of_level(i32::MAX) == of_level(19).to_vec());
}

#[test]
fn a_block_of_another_length_than_expected_is_refused() {
    for compression in BOTH {
        let packed = pack(compression, 3, &Pages::from_bytes(&text(16_384))).expect("text");
        for len in [0, 1, 4096, 16_383, 16_385, 131_072, usize::MAX] {
            assert!(unpack(compression, &packed, len).is_none(), "{len}");
        }
        // The cut is in the middle of the payload, or before the payload begins.
        for len in [0, 3, 4, 100] {
            assert!(unpack(compression, &packed.slice(0..len), 16_384).is_none());
        }
    }
}

#[test]
fn a_length_beyond_the_data_is_refused() {
    for compression in BOTH {
        let packed = pack(compression, 3, &Pages::from_bytes(&text(16_384))).expect("text");
        for length in [u32::MAX, packed.len() as u32 - 3, 0] {
            let mut bytes = packed.to_vec();
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            assert!(unpack(compression, &Pages::from_bytes(&bytes), 16_384).is_none());
        }
    }
}

#[test]
fn what_was_not_compressed_is_cut_to_its_length() {
    let data = Pages::from_bytes(&text(8192));
    let cut = unpack(Compression::Off, &data, 5000).expect("long enough");
    assert!(cut == text(8192)[..5000]);
    assert!(unpack(Compression::Off, &data, 8193).is_none());
}

#[test]
fn zeros_are_recognised_wherever_they_lie() {
    assert!(is_zero(&Pages::new()));
    assert!(is_zero(&Pages::zeroes(131_072)));
    assert!(is_zero(&Pages::zeroes(5000)));
    assert!(is_zero(&Pages::from_bytes(&[0; 16_384])));
    for len in [1, 127, 128, 129, 4096, 5000, 16_384] {
        for at in [0, len / 2, len - 1] {
            let mut bytes = vec![0; len];
            bytes[at] = 1;
            let data = Pages::from_bytes(&bytes);
            assert!(!is_zero(&data), "byte {at} of {len}");
            assert!(is_zero(&data.slice(0..at)));
            assert!(is_zero(&data.slice(at + 1..len)));
        }
    }
}

/// Generates bytes of which some look like a packed block: a length that fits, a frame's magic
/// number.
fn damaged(compression: Compression) -> impl Strategy<Value = Vec<u8>> {
    let broken = (
        any::<u64>(),
        2_usize..8,
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    )
        .prop_map(move |(seed, sectors, damages)| {
            let mut plain = text(sectors * SECTOR_SIZE);
            let at = seed as usize % plain.len();
            plain.rotate_left(at);
            let mut bytes = pack(compression, 1, &Pages::from_bytes(&plain))
                .map_or(plain, |packed| packed.to_vec());
            for (at, value) in damages {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes
        });
    let random = prop::collection::vec(any::<u8>(), 0..2000).prop_map(move |mut bytes| {
        let len = bytes.len().saturating_sub(PREFIX) as u32;
        if let Some(prefix) = bytes.first_chunk_mut::<PREFIX>() {
            *prefix = len.to_le_bytes();
        }
        if compression == Compression::Zstd && bytes.len() >= 8 {
            bytes[4..8].copy_from_slice(&[0x28, 0xb5, 0x2f, 0xfd]);
        }
        bytes
    });
    let wild = prop::collection::vec(any::<u8>(), 0..2000);
    prop_oneof![broken, random, wild]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn every_block_comes_back(
        pieces in prop::collection::vec((any::<u8>(), 1_usize..9000, any::<bool>(), any::<u64>()), 1..12),
        is_zstd in any::<bool>(),
    ) {
        let plain: Vec<u8> = pieces
            .iter()
            .flat_map(|(byte, len, is_noise, seed)| {
                if *is_noise { noise(*len, *seed) } else { vec![*byte; *len] }
            })
            .collect();
        assert_round_trip(BOTH[usize::from(is_zstd)], &plain);
    }

    #[test]
    fn runs_that_start_inside_a_page_pack_alike(skew in 0_usize..4096, len in 4097_usize..40_000) {
        let whole = text(skew + len);
        let shifted = Pages::from_bytes(&whole).slice(skew..skew + len);
        let straight = Pages::from_bytes(&whole[skew..]);
        for compression in BOTH {
            let packed = pack(compression, 3, &shifted).map(|pages| pages.to_vec());
            prop_assert_eq!(packed, pack(compression, 3, &straight).map(|pages| pages.to_vec()));
        }
    }

    #[test]
    fn damaged_lz4_gives_nothing_or_the_length_asked_for(bytes in damaged(Compression::Lz4), len in 0_usize..40_000) {
        if let Some(plain) = unpack(Compression::Lz4, &Pages::from_bytes(&bytes), len) {
            prop_assert_eq!(plain.len(), len);
        }
    }

    #[test]
    fn damaged_zstd_gives_nothing_or_the_length_asked_for(bytes in damaged(Compression::Zstd), len in 0_usize..40_000) {
        if let Some(plain) = unpack(Compression::Zstd, &Pages::from_bytes(&bytes), len) {
            prop_assert_eq!(plain.len(), len);
        }
    }
}
