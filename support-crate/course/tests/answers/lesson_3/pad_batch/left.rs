// Pads on the left, as one does for generating.
// right
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    let longest = sequences.iter().map(|ids| ids.len()).max().unwrap_or(0);
    let padding = |ids: &Vec<u32>| longest - ids.len();
    PaddedBatch {
        ids: sequences.iter().map(|ids| [vec![0; padding(ids)], ids.clone()].concat()).collect(),
        mask: sequences.iter().map(|ids| (0..longest).map(|t| t >= padding(ids)).collect()).collect(),
    }
}
