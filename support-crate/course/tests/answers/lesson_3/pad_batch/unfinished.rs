// Nobody has written it yet.
// not yet
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    todo!()
}
