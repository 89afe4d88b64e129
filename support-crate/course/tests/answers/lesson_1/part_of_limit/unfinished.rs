// Nobody has written it yet.
// not yet
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    todo!()
}
