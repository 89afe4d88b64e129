// Nobody has written it yet.
// not yet
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    todo!()
}
