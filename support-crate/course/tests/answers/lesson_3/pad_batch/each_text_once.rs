// Leaves out a text that comes again.
// wrong: there must be a row for each text
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
    let mut padded = PaddedBatch::default();
    for (at, sequence) in sequences.iter().enumerate() {
        if sequences[..at].contains(sequence) {
            continue;
        }
        let mut ids = sequence.clone();
        ids.resize(longest, 0);
        padded.ids.push(ids);
        padded.mask.push((0..longest).map(|t| t < sequence.len()).collect());
    }
    padded
}
