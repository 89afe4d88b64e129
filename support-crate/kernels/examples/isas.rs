//! The instruction sets of this processor, the fastest last, as `QUANTLAB_CPU_ISA` takes them.

fn main() {
    quantlab_kernels::Isa::available().into_iter().for_each(|isa| println!("{isa}"));
}
