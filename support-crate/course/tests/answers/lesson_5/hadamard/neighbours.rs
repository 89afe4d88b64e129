// Every pass takes neighbours: the distance never grows.
// wrong: one step, of neighbours
fn hadamard(x: &mut [f32]) {
    let block = x.len() & x.len().wrapping_neg();
    for part in x.chunks_mut(block.max(1)) {
        let mut h = 1;
        while h < block {
            for pair in part.chunks_exact_mut(2) {
                (pair[0], pair[1]) = (pair[0] + pair[1], pair[0] - pair[1]);
            }
            h *= 2;
        }
        part.iter_mut().for_each(|x| *x /= (block as f32).sqrt());
    }
}
