// Pads every batch to the same length.
// wrong: padding beyond the longest text
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    let longest = 64;
    let mut padded = PaddedBatch::default();
    for sequence in sequences {
        let mut ids = sequence.clone();
        ids.resize(longest, 0);
        padded.ids.push(ids);
        padded.mask.push((0..longest).map(|t| t < sequence.len()).collect());
    }
    padded
}
