// Takes the rows to be sorted.
// wrong: the rows may come in any order
fn pairs_in_order(rows: &[LengthRun]) -> (usize, usize) {
    let (mut in_order, mut all) = (0, 0);
    for (i, short) in rows.iter().enumerate() {
        for long in &rows[i + 1..] {
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
