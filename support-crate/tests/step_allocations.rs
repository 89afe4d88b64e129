//! A step of one token allocates nothing once the first have been.
//!
//! The library is shared, so that a `#[global_allocator]` of this program would not see what the library allocates.
//! `malloc` does: the dynamic linker takes the program's before that of the system. The only test of its process.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod common;

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::cases;
use quantlab::model::{CausalLm, Engine, LoadOptions, LogitPositions, Precision, TokenBatch, load_model, set_threads};
use quantlab::quant::QuantizationConfig;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(memory: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
}

macro_rules! counted {
    ($($name:ident($($arg:ident: $type:ty),*) by $real:ident;)*) => {$(
        // SAFETY: glibc lets a program replace these functions, if it replaces all that belong together; what they
        // return is glibc's own, which its `free` knows.
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> *mut c_void {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the caller's arguments, as they are.
            unsafe { $real($($arg),*) }
        }
    )*};
}

counted! {
    malloc(size: usize) by __libc_malloc;
    calloc(count: usize, size: usize) by __libc_calloc;
    realloc(memory: *mut c_void, size: usize) by __libc_realloc;
    memalign(alignment: usize, size: usize) by __libc_memalign;
    aligned_alloc(alignment: usize, size: usize) by __libc_memalign;
}

// SAFETY: as for the functions above.
#[unsafe(no_mangle)]
extern "C" fn posix_memalign(to: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    const NO_MEMORY: c_int = 12;
    let memory = memalign(alignment, size);
    if memory.is_null() {
        return NO_MEMORY;
    }
    // SAFETY: the caller's promise that this is a place for an address.
    unsafe { *to = memory };
    0
}

fn allocations<R>(run: impl FnOnce() -> R) -> (R, usize) {
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    let result = run();
    (result, ALLOCATIONS.load(Ordering::SeqCst) - before)
}

/// Allocations of each step of one token after a prompt, the steps that make room left out.
fn of_steps(model: &dyn CausalLm, prompt: &TokenBatch) -> Vec<usize> {
    const ROOM_IS_MADE: usize = 2;
    let (seq_len, batch) = (prompt.seq_len(), prompt.batch());
    let mut cache = model.new_cache(batch, seq_len + 10).unwrap();
    model.forward(prompt, Some(&mut cache), LogitPositions::Last).unwrap();
    let next = TokenBatch::new(&vec![vec![7]; batch]).unwrap();
    let step = |_| allocations(|| drop(model.forward(&next, Some(&mut cache), LogitPositions::Last).unwrap())).1;
    (0..10).map(step).skip(ROOM_IS_MADE).collect()
}

#[test]
fn a_step_of_one_token_allocates_nothing() {
    // Helpers take parts when they happen to be free, and have memory of their own.
    set_threads(1).unwrap();
    assert!(allocations(|| TokenBatch::single(&[1]).unwrap()).1 > 0, "the library's allocations are counted");
    let (whole, padded) = (vec![vec![true; 6]; 3], [[true; 6], [false, false, true, true, true, true], [true; 6]]);
    let of_three = || TokenBatch::new(&[vec![5, 42, 7, 1, 99, 3], vec![0, 0, 4, 3, 2, 1], vec![9; 6]]).unwrap();
    let prompts = [
        TokenBatch::single(&[5, 42, 7, 1, 99]).unwrap(),
        of_three().with_attention_mask(&whole).unwrap(),
        of_three().with_attention_mask(&padded.map(Vec::from)).unwrap(),
    ];
    let int8 = || QuantizationConfig::llm_int8(0.0);
    for case in cases() {
        for (precision, quantization) in [
            (Precision::Float32, None),
            (Precision::BFloat16, None),
            (Precision::Float32, Some(int8())),
            (Precision::BFloat16, Some(QuantizationConfig::nf4())),
        ] {
            let options = LoadOptions { precision, quantization, ..LoadOptions::default() };
            let loaded = load_model(&[case.folder.to_str().unwrap()], &options).unwrap();
            assert_eq!(loaded.model.info().engine, Engine::Kernels);
            for prompt in &prompts {
                let found = of_steps(&*loaded.model, prompt);
                assert_eq!(found, [0; 8], "{}, {}, {} sequences", case.name, loaded.dtype_label, prompt.batch());
            }
        }
    }
}
