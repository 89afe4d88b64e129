// Nobody has written it yet.
// not yet
fn pairs_in_order(rows: &[LengthRun]) -> (usize, usize) {
    todo!()
}
