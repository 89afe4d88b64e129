// Pads with -100 as labels are in PyTorch: as u32 that is no token of any vocabulary.
// wrong: not a token of any vocabulary
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    let ignore_index = -100_i32 as u32;
    let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
    let mut padded = PaddedBatch::default();
    for s in sequences {
        let mut ids = s.clone();
        ids.resize(longest, ignore_index);
        padded.ids.push(ids);
        padded.mask.push((0..longest).map(|t| t < s.len()).collect());
    }
    padded
}
