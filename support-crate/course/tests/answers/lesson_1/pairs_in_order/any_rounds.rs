// Each run with each run.
// wrong: runs of different rounds too
fn pairs_in_order(rows: &[LengthRun]) -> (usize, usize) {
    let (mut in_order, mut all) = (0, 0);
    for short in rows {
        for long in rows.iter().filter(|long| long.prompt_tokens > short.prompt_tokens) {
            for a in &short.runs.runs {
                for b in &long.runs.runs {
                    all += 1;
                    in_order += usize::from(b.total_latency_s > a.total_latency_s);
                }
            }
        }
    }
    (in_order, all)
}
