// Asks at every place of the rectangle whether the text has a token there.
// right
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    let longest = sequences.iter().map(|s| s.len()).max().unwrap_or(0);
    let (mut all_ids, mut all_masks) = (Vec::new(), Vec::new());
    for sequence in sequences {
        let (mut ids, mut mask) = (Vec::with_capacity(longest), Vec::with_capacity(longest));
        for t in 0..longest {
            match sequence.get(t) {
                Some(&id) => {
                    ids.push(id);
                    mask.push(true);
                }
                None => {
                    ids.push(0);
                    mask.push(false);
                }
            }
        }
        all_ids.push(ids);
        all_masks.push(mask);
    }
    PaddedBatch { ids: all_ids, mask: all_masks }
}
