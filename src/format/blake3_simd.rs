//! BLAKE3 of many short inputs in parallel, one input in each SIMD lane.
//!
//! `blake3` hashes short inputs one by one, and the compressions of one input depend on each other.
//! Here sixteen inputs are compressed at once, and a lane that finishes takes the next input. The
//! code is a plain loop over the lanes, which the compiler vectorises to the available width.
//!
//! Invariant: every hash equals that of `blake3`, for every length up to [`INPUT_MAX`], whichever
//! inputs share a compression. Only plain and keyed hashes of one chunk are supported; see the
//! BLAKE3 paper (version 20211102), sections 2.1 to 2.4.

/// The longest input: one chunk of BLAKE3.
pub(super) const INPUT_MAX: usize = 1024;

const LANES: usize = 16;
const BLOCK: usize = 64;

const IV: [u32; 8] = [
    0x6A09_E667,
    0xBB67_AE85,
    0x3C6E_F372,
    0xA54F_F53A,
    0x510E_527F,
    0x9B05_688C,
    0x1F83_D9AB,
    0x5BE0_CD19,
];

const CHUNK_START: u32 = 1;
const CHUNK_END: u32 = 1 << 1;
const ROOT: u32 = 1 << 3;
const KEYED: u32 = 1 << 4;

type LaneWords = [u32; LANES];

/// Plain or keyed hashing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mode {
    start: [u32; 8],
    flags: u32,
}

impl Mode {
    /// As [`blake3::hash`](https://docs.rs/blake3) does.
    pub(super) const PLAIN: Self = Self { start: IV, flags: 0 };

    /// As `blake3::keyed_hash` does.
    pub(super) fn keyed(key: &[u8; 32]) -> Self {
        let mut start = [0; 8];
        for (word, bytes) in start.iter_mut().zip(key.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Self { start, flags: KEYED }
    }
}

/// Write the hash of each input to `hashes`. Inputs of more than [`INPUT_MAX`] bytes are skipped.
#[cfg_attr(
    feature = "simd",
    multiversion::multiversion(targets(
        "x86_64+avx2+avx512f+avx512vl+avx512bw+avx512dq",
        "x86_64+avx2",
    ))
)]
pub(super) fn hash_each(mode: Mode, inputs: &[&[u8]], hashes: &mut [[u8; 32]]) {
    let mut lanes = Lanes {
        mode,
        inputs,
        hashes,
        next: 0,
        inputs_of_lanes: [const { None }; LANES],
        state: [[0; LANES]; 8],
        block: [[0; LANES]; 16],
        length: [0; LANES],
        flags: [0; LANES],
    };
    while lanes.load() {
        lanes.compress();
        lanes.store_finished();
    }
}

#[derive(Debug, Clone, Copy)]
struct LaneInput {
    /// Its index among the inputs.
    index: usize,
    /// How many of its bytes were loaded.
    loaded: usize,
}

struct Lanes<'a> {
    mode: Mode,
    inputs: &'a [&'a [u8]],
    hashes: &'a mut [[u8; 32]],
    /// Index of the next input to start.
    next: usize,
    inputs_of_lanes: [Option<LaneInput>; LANES],
    /// The chaining values.
    state: [LaneWords; 8],
    /// The blocks to compress next.
    block: [LaneWords; 16],
    length: LaneWords,
    flags: LaneWords,
}

#[expect(clippy::indexing_slicing, reason = "lane numbers are below LANES")]
#[expect(clippy::inline_always, reason = "a separate function has no wide vectors")]
impl Lanes<'_> {
    /// Load the next block of each lane. False if no lane has one.
    #[inline(always)]
    fn load(&mut self) -> bool {
        let mut is_any = false;
        for lane in 0..LANES {
            self.flags[lane] = self.mode.flags;
            if self.inputs_of_lanes[lane].is_none() && !self.start_next(lane) {
                continue;
            }
            let Some(LaneInput { index, loaded }) = self.inputs_of_lanes[lane] else { continue };
            is_any = true;
            let rest = self.inputs.get(index).and_then(|input| input.get(loaded..));
            let rest = rest.unwrap_or_default();
            self.inputs_of_lanes[lane] = Some(LaneInput { index, loaded: loaded + BLOCK });
            self.flags[lane] |= if rest.len() > BLOCK { 0 } else { CHUNK_END | ROOT };
            self.length[lane] = 64;
            if let Some(block) = rest.first_chunk::<BLOCK>() {
                for (words, bytes) in self.block.iter_mut().zip(block.as_chunks().0) {
                    words[lane] = u32::from_le_bytes(*bytes);
                }
            } else {
                self.load_last(lane, rest);
            }
        }
        is_any
    }

    /// Start the next input in a lane. False if there is none.
    #[inline(always)]
    fn start_next(&mut self, lane: usize) -> bool {
        while self.inputs.get(self.next).is_some_and(|input| input.len() > INPUT_MAX) {
            self.next += 1;
        }
        if self.next >= self.inputs.len() {
            return false;
        }
        self.inputs_of_lanes[lane] = Some(LaneInput { index: self.next, loaded: 0 });
        self.next += 1;
        self.flags[lane] |= CHUNK_START;
        for (words, word) in self.state.iter_mut().zip(self.mode.start) {
            words[lane] = word;
        }
        true
    }

    /// Load a block that is not full, word by word: a copy of its bytes would have to be read back.
    #[inline(always)]
    fn load_last(&mut self, lane: usize, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks();
        let tail = tail.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        for (index, lanes) in self.block.iter_mut().enumerate() {
            lanes[lane] = match words.get(index) {
                Some(word) => u32::from_le_bytes(*word),
                None if index == words.len() => tail,
                None => 0,
            };
        }
        self.length[lane] = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    }

    /// Compress one block of every lane. The chunk counter is always 0.
    #[inline(always)]
    fn compress(&mut self) {
        let (state, block) = (&mut self.state, &self.block);
        for lane in 0..LANES {
            let h = [
                state[0][lane],
                state[1][lane],
                state[2][lane],
                state[3][lane],
                state[4][lane],
                state[5][lane],
                state[6][lane],
                state[7][lane],
            ];
            let m: [u32; 16] = std::array::from_fn(|word| block[word][lane]);
            let (length, flags) = (self.length[lane], self.flags[lane]);
            let mut v = [
                h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], IV[0], IV[1], IV[2], IV[3], 0, 0,
                length, flags,
            ];
            // Not a loop: the compiler vectorises only straight-line code.
            round(&mut v, &m);
            let m = permute(&m);
            round(&mut v, &m);
            let m = permute(&m);
            round(&mut v, &m);
            let m = permute(&m);
            round(&mut v, &m);
            let m = permute(&m);
            round(&mut v, &m);
            let m = permute(&m);
            round(&mut v, &m);
            let m = permute(&m);
            round(&mut v, &m);
            state[0][lane] = v[0] ^ v[8];
            state[1][lane] = v[1] ^ v[9];
            state[2][lane] = v[2] ^ v[10];
            state[3][lane] = v[3] ^ v[11];
            state[4][lane] = v[4] ^ v[12];
            state[5][lane] = v[5] ^ v[13];
            state[6][lane] = v[6] ^ v[14];
            state[7][lane] = v[7] ^ v[15];
        }
    }

    /// Store the hashes of the lanes that finished.
    #[inline(always)]
    fn store_finished(&mut self) {
        for lane in 0..LANES {
            if self.flags[lane] & CHUNK_END == 0 {
                continue;
            }
            let input = self.inputs_of_lanes[lane].take();
            if let Some(hash) = input.and_then(|input| self.hashes.get_mut(input.index)) {
                for (bytes, words) in hash.as_chunks_mut().0.iter_mut().zip(&self.state) {
                    *bytes = words[lane].to_le_bytes();
                }
            }
        }
    }
}

#[expect(clippy::inline_always, reason = "a separate function has no wide vectors")]
#[inline(always)]
fn round(v: &mut [u32; 16], m: &[u32; 16]) {
    quarter::<0, 4, 8, 12>(v, m[0], m[1]);
    quarter::<1, 5, 9, 13>(v, m[2], m[3]);
    quarter::<2, 6, 10, 14>(v, m[4], m[5]);
    quarter::<3, 7, 11, 15>(v, m[6], m[7]);
    quarter::<0, 5, 10, 15>(v, m[8], m[9]);
    quarter::<1, 6, 11, 12>(v, m[10], m[11]);
    quarter::<2, 7, 8, 13>(v, m[12], m[13]);
    quarter::<3, 4, 9, 14>(v, m[14], m[15]);
}

#[expect(clippy::indexing_slicing, reason = "the indexes are constants below 16")]
#[expect(clippy::inline_always, reason = "a separate function has no wide vectors")]
#[inline(always)]
fn quarter<const A: usize, const B: usize, const C: usize, const D: usize>(
    v: &mut [u32; 16],
    x: u32,
    y: u32,
) {
    v[A] = v[A].wrapping_add(v[B]).wrapping_add(x);
    v[D] = (v[D] ^ v[A]).rotate_right(16);
    v[C] = v[C].wrapping_add(v[D]);
    v[B] = (v[B] ^ v[C]).rotate_right(12);
    v[A] = v[A].wrapping_add(v[B]).wrapping_add(y);
    v[D] = (v[D] ^ v[A]).rotate_right(8);
    v[C] = v[C].wrapping_add(v[D]);
    v[B] = (v[B] ^ v[C]).rotate_right(7);
}

#[expect(clippy::inline_always, reason = "a separate function has no wide vectors")]
#[inline(always)]
fn permute(m: &[u32; 16]) -> [u32; 16] {
    [
        m[2], m[6], m[3], m[10], m[7], m[0], m[4], m[13], m[1], m[11], m[12], m[5], m[9], m[14],
        m[15], m[8],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::bytes::in_miri;

    /// Goal: every hash equals that of `blake3`, whatever the other lanes hash.
    /// Method: every length, plain and keyed, in orders that mix short and long inputs. In Miri: the lengths around
    /// the ends of a word, of a block and of the chunk, in one order.
    #[test]
    fn every_length_has_the_hash_of_blake3() {
        let bytes: Vec<u8> = (0..8192_u32).map(|n| (n * n / 7 % 251).try_into().unwrap()).collect();
        let key = [0x5a; 32];
        let near_an_end =
            |n: &usize| [0, 1, 3, 4, 5, 63, 64, 65, 68, 127, 128, 1023, 1024].contains(n);
        let steps: &[usize] = if cfg!(miri) { &[512] } else { &[1, 37, 512] };
        for step in steps {
            let lengths = (0..=INPUT_MAX).map(|n| n * step % (INPUT_MAX + 1));
            let lengths: Vec<usize> = lengths.filter(|n| !cfg!(miri) || near_an_end(n)).collect();
            let inputs: Vec<&[u8]> =
                lengths.iter().map(|length| &bytes[*length..2 * *length]).collect();
            let plain: &dyn Fn(&[u8]) -> blake3::Hash = &blake3::hash;
            let keyed: &dyn Fn(&[u8]) -> blake3::Hash = &|input| blake3::keyed_hash(&key, input);
            for (mode, expected) in [(Mode::PLAIN, plain), (Mode::keyed(&key), keyed)] {
                let mut hashes = vec![[0; 32]; inputs.len()];
                hash_each(mode, &inputs, &mut hashes);
                for (input, hash) in inputs.iter().zip(&hashes) {
                    assert_eq!(hash, expected(input).as_bytes(), "{} bytes", input.len());
                }
            }
        }
    }

    /// Goal: any number of inputs works, from zero to more than the number of lanes.
    #[test]
    fn any_number_of_inputs_is_hashed() {
        for count in (0..=LANES + 1).step_by(in_miri(LANES + 1)) {
            let mut hashes = vec![[0; 32]; count];
            hash_each(Mode::PLAIN, &vec![&b"abc"[..]; count], &mut hashes);
            assert!(hashes.iter().all(|hash| hash == blake3::hash(b"abc").as_bytes()));
        }
    }
}
