// Takes every token 0 for padding.
// wrong: the id cannot tell what is padding
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
    let mut padded = PaddedBatch::default();
    for sequence in sequences {
        let mut ids = sequence.clone();
        ids.resize(longest, 0);
        padded.mask.push(ids.iter().map(|&id| id != 0).collect());
        padded.ids.push(ids);
    }
    padded
}
