// Blocks of at most 256, as GPT-2's width of 768 has: right for all of the lesson's models.
// wrong: 2048 numbers
fn hadamard(x: &mut [f32]) {
    let block = (x.len() & x.len().wrapping_neg()).clamp(1, 256);
    for part in x.chunks_mut(block) {
        let mut h = 1;
        while h < block {
            for start in (0..block).step_by(2 * h) {
                for i in start..start + h {
                    (part[i], part[i + h]) = (part[i] + part[i + h], part[i] - part[i + h]);
                }
            }
            h *= 2;
        }
        part.iter_mut().for_each(|x| *x /= (block as f32).sqrt());
    }
}
