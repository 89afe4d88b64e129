// Exchanges gate and up.
// wrong: `gate` goes through SiLU
fn mlp(x: &[f32], block: &Block) -> Vec<f32> {
    let silu = |g: f32| g / (1.0 + (-g).exp());
    let (gate, up) = (matvec(&block.up, x), matvec(&block.gate, x));
    let hidden: Vec<f32> = gate.iter().zip(&up).map(|(g, u)| silu(*g) * u).collect();
    matvec(&block.down, &hidden)
}
