// The gate itself where the sigmoid is nearly 1.
// wrong: up to 6
fn mlp(x: &[f32], block: &Block) -> Vec<f32> {
    let gate = matvec(&block.gate, x);
    let up = matvec(&block.up, x);
    let hidden: Vec<f32> =
        gate.iter().zip(&up).map(|(g, u)| if *g > 4.0 { g * u } else { g / (1.0 + (-g).exp()) * u }).collect();
    matvec(&block.down, &hidden)
}
