// Neighbours only.
// wrong: those are neighbours only
fn pairs_in_order(rows: &[LengthRun]) -> (usize, usize) {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| row.prompt_tokens);
    let (mut in_order, mut all) = (0, 0);
    for pair in rows.windows(2).filter(|pair| pair[0].prompt_tokens < pair[1].prompt_tokens) {
        for (a, b) in pair[0].runs.runs.iter().zip(&pair[1].runs.runs) {
            all += 1;
            in_order += usize::from(b.total_latency_s > a.total_latency_s);
        }
    }
    (in_order, all)
}
