// By the library's limit.
// right
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    let mut parts: Vec<f64> = vec![];
    for (run, &gb_per_s) in row.runs.runs.iter().zip(row.gb_per_s.iter()) {
        let limit = quantlab::measure::DecodeLimit { bytes_per_token: row.bytes_per_token, gb_per_s };
        parts.push(limit.fraction(run.tokens_per_sec));
    }
    let part = Statistics::of(&parts)?;
    Ok(part)
}
