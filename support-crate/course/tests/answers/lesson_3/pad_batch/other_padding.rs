// With loops, and with another token as padding.
// right
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    let mut longest = 0;
    for ids in sequences {
        longest = longest.max(ids.len());
    }
    let mut ids = sequences.to_vec();
    let mut mask = Vec::new();
    for row in &mut ids {
        let mut row_mask = vec![true; row.len()];
        while row.len() < longest {
            row.push(7);
            row_mask.push(false);
        }
        mask.push(row_mask);
    }
    PaddedBatch { ids, mask }
}
