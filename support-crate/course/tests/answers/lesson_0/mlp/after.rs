// SiLU of the product.
// wrong: SiLU comes before the product
fn mlp(x: &[f32], block: &Block) -> Vec<f32> {
    let silu = |g: f32| g / (1.0 + (-g).exp());
    let (gate, up) = (matvec(&block.gate, x), matvec(&block.up, x));
    let hidden: Vec<f32> = gate.iter().zip(&up).map(|(g, u)| silu(g * u)).collect();
    matvec(&block.down, &hidden)
}
