// Fills up the ids on the right, but puts the false of the mask on the left as in lesson 1's generation.
// wrong: exactly where the text's tokens stand
fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
    let mut ids = vec![];
    let mut mask = vec![];
    for sequence in sequences {
        let missing = longest - sequence.len();
        ids.push([sequence.clone(), vec![0; missing]].concat());
        mask.push([vec![false; missing], vec![true; sequence.len()]].concat());
    }
    PaddedBatch { ids, mask }
}
