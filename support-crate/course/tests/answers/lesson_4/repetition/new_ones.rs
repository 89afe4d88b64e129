// The share of runs that are new.
// wrong: runs that are new
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let seen: std::collections::HashSet<&[&str]> = words.windows(4).collect();
    if words.len() < 4 { 0.0 } else { seen.len() as f64 / (words.len() - 3) as f64 }
}
