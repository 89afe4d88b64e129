// Takes the last text for the longest.
// wrong: texts that are cut off lose tokens
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    let longest = sequences.last().map_or(0, Vec::len);
    let mut padded = PaddedBatch::default();
    for sequence in sequences {
        let mut ids = sequence.clone();
        ids.resize(longest, 0);
        padded.ids.push(ids);
        padded.mask.push((0..longest).map(|t| t < sequence.len()).collect());
    }
    padded
}
