// Leaves the rows as they are.
// wrong: do not make a rectangle
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    PaddedBatch { ids: sequences.to_vec(), mask: sequences.iter().map(|ids| vec![true; ids.len()]).collect() }
}
