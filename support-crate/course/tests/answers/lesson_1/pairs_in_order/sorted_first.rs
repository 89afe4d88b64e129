// Sorts, then compares each row with those after it.
// right
fn pairs_in_order(rows: &[LengthRun]) -> (usize, usize) {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| row.prompt_tokens);
    let mut verdicts = vec![];
    for i in 0..rows.len() {
        for j in i + 1..rows.len() {
            if rows[i].prompt_tokens == rows[j].prompt_tokens {
                continue;
            }
            for round in 0..rows[i].runs.runs.len() {
                verdicts.push(rows[j].runs.runs[round].total_latency_s > rows[i].runs.runs[round].total_latency_s);
            }
        }
    }
    (verdicts.iter().filter(|v| **v).count(), verdicts.len())
}
