// Leaves out texts without tokens, since a model cannot read them.
// wrong: there must be a row for each text, even for one without tokens
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    let texts: Vec<&Vec<u32>> = sequences.iter().filter(|s| !s.is_empty()).collect();
    let longest = texts.iter().map(|s| s.len()).max().unwrap_or(0);
    let pad = |s: &Vec<u32>| {
        let mut row = s.to_vec();
        row.extend(std::iter::repeat(0).take(longest - s.len()));
        row
    };
    let ids = texts.iter().map(|s| pad(s)).collect();
    let mask = texts.iter().map(|s| (0..longest).map(|t| t < s.len()).collect()).collect();
    PaddedBatch { ids, mask }
}
