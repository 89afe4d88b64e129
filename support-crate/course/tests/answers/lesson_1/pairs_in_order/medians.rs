// By the medians.
// wrong: that compares medians
fn pairs_in_order(rows: &[LengthRun]) -> (usize, usize) {
    let (mut in_order, mut all) = (0, 0);
    for short in rows {
        for long in rows.iter().filter(|long| long.prompt_tokens > short.prompt_tokens) {
            all += 1;
            in_order += usize::from(long.runs.latency_s.median > short.runs.latency_s.median);
        }
    }
    (in_order, all)
}
