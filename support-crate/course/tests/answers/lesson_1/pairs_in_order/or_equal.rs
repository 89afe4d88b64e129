// Takes a row and itself, and rows of one length, for pairs.
// wrong: is that `>=` between `prompt_tokens`
fn pairs_in_order(rows: &[LengthRun]) -> (usize, usize) {
    let (mut in_order, mut all) = (0, 0);
    for short in rows {
        for long in rows.iter().filter(|long| long.prompt_tokens >= short.prompt_tokens) {
            for (a, b) in short.runs.runs.iter().zip(&long.runs.runs) {
                all += 1;
                if b.total_latency_s > a.total_latency_s {
                    in_order += 1;
                }
            }
        }
    }
    (in_order, all)
}
