// As in the notebook.
// right
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
    let mut padded = PaddedBatch::default();
    for sequence in sequences {
        let mut ids = sequence.clone();
        ids.resize(longest, 0);
        padded.ids.push(ids);
        padded.mask.push((0..longest).map(|t| t < sequence.len()).collect());
    }
    padded
}
