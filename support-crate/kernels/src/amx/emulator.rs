//! Emulates AMX's instructions on processors that lack them, for tests: the code under test runs unchanged, and the
//! handler of the signal that each of its tile instructions raises does what the instruction would have done.
//!
//! It is stricter than a processor: whatever would fault, or is not meant to be used here, ends the process with a
//! message that says why.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, from LDTILECFG to TILEZERO.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::Once;

use libc::{REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
use libc::{REG_RAX, REG_RBP, REG_RBX, REG_RCX, REG_RDI, REG_RDX, REG_RIP, REG_RSI, REG_RSP};

const ROWS: usize = 16;
const ROW_BYTES: usize = 64;
const DWORDS: usize = ROW_BYTES / 4;

/// Groups of 4 bytes: a float32, an int32, two bfloat16 or four bytes.
type Rows = [[u32; DWORDS]; ROWS];

/// A tile register. Rows, and bytes of rows, beyond the configured ones are always 0.
#[derive(Clone, Copy)]
struct Tile {
    rows: usize,
    row_bytes: usize,
    data: Rows,
}

const EMPTY: Tile = Tile { rows: 0, row_bytes: 0, data: [[0; DWORDS]; ROWS] };

/// The state that a processor would hold for a thread; `config` is all 0 while nothing is configured.
struct State {
    config: [u8; 64],
    tiles: [Tile; 8],
}

thread_local! {
    static STATE: UnsafeCell<State> = const { UnsafeCell::new(State { config: [0; 64], tiles: [EMPTY; 8] }) };
}

/// Emulates the tile instructions of this process from now on.
pub fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: all-zero bytes are a valid `sigaction`; the handler has the signature that SA_SIGINFO asks for. It
        // only runs where an instruction is illegal, so it never interrupts an allocation or the like.
        let failed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_illegal_instruction as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut())
        };
        assert_eq!(failed, 0, "the emulator's signal handler");
    });
}

/// Whether this thread has tiles configured.
pub fn is_configured() -> bool {
    // SAFETY: the handler, which alone writes this thread's state, is not running while this is.
    STATE.with(|state| unsafe { (*state.get()).config[0] != 0 })
}

extern "C" fn on_illegal_instruction(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO, the third argument is the interrupted thread's context.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    STATE.with(|state| {
        // SAFETY: the state is this thread's own, and no tile instruction interrupts this handler, which contains none.
        let state = unsafe { &mut *state.get() };
        let mut next = Instruction::decode(registers);
        require(next.is_some(), "an illegal instruction that is not one of AMX's");
        // The tile instructions that follow are emulated as well: a signal takes several times as long as an
        // instruction.
        while let Some(instruction) = next {
            state.execute(&instruction);
            registers[REG_RIP as usize] += instruction.len as i64;
            next = Instruction::decode(registers);
        }
    });
}

/// Ends the process: a panic must not leave a signal handler, and a test's output is captured.
fn fault(reason: &str) -> ! {
    let message = format!("AMX emulator: {reason}\n");
    // SAFETY: writes a slice to standard error.
    unsafe { libc::write(2, message.as_ptr().cast(), message.len()) };
    std::process::abort()
}

fn require(holds: bool, reason: &str) {
    if !holds {
        fault(reason);
    }
}

/// VEX prefix, opcode and operands of an instruction of the second map (0F 38).
struct Instruction {
    opcode: u8,
    /// Which of none, 66, F3 and F2 the prefix stands for.
    prefix: u8,
    /// ModRM's `reg`, its `rm` for a register, and VEX's `vvvv`.
    operands: [usize; 3],
    memory: Option<Memory>,
    len: usize,
}

struct Memory {
    address: usize,
    /// The index register, scaled; without one, 0.
    stride: usize,
}

impl Instruction {
    /// Decodes the next instruction, if it is one of AMX's.
    fn decode(registers: &[i64; 23]) -> Option<Self> {
        const GENERAL: [c_int; 16] = [
            REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9, REG_R10, REG_R11,
            REG_R12, REG_R13, REG_R14, REG_R15,
        ];
        let general = |number: u8| registers[GENERAL[usize::from(number)] as usize] as usize;
        let at = registers[REG_RIP as usize] as *const u8;
        // SAFETY: these are bytes of the program, and no more of them are read than its next instruction has.
        let byte = |offset: usize| unsafe { *at.add(offset) };
        if byte(0) != 0xC4 || byte(1) & 0x1F != 2 || !matches!(byte(3), 0x49 | 0x4B | 0x5C | 0x5E) {
            return None;
        }
        let (extended, vex, opcode, modrm) = (!byte(1), byte(2), byte(3), byte(4));
        require(vex & 0x84 == 0, "W and L are 0 in all of AMX's instructions");
        let (mode, mut rm) = (modrm >> 6, modrm & 7);
        let mut len = 5;
        let memory = (mode != 3).then(|| {
            let mut stride = 0;
            if rm == 4 {
                let sib = byte(5);
                len = 6;
                rm = sib & 7;
                let index = sib >> 3 & 7 | (extended >> 6 & 1) << 3;
                stride = if index == 4 { 0 } else { general(index) << (sib >> 6) };
            }
            require(mode != 0 || rm != 5, "an address without a base register");
            let displacement = match mode {
                0 => 0,
                1 => isize::from(byte(len) as i8),
                _ => i32::from_le_bytes([0, 1, 2, 3].map(|i| byte(len + i))) as isize,
            };
            len += [0, 1, 4][usize::from(mode)];
            let base = general(rm | (extended >> 5 & 1) << 3);
            Memory { address: base.wrapping_add_signed(displacement), stride }
        });
        let operands = [modrm >> 3 & 7, modrm & 7, !vex >> 3 & 15].map(usize::from);
        Some(Self { opcode, prefix: vex & 3, operands, memory, len })
    }

    fn memory(&self) -> &Memory {
        self.memory.as_ref().unwrap_or_else(|| fault("a register for an operand in memory"))
    }
}

impl State {
    fn execute(&mut self, instruction: &Instruction) {
        let tile = instruction.operands[0];
        match (instruction.opcode, instruction.prefix, instruction.memory.is_some()) {
            (0x49, 0, true) => self.load_config(instruction.memory()),
            (0x49, 0, false) => (self.config, self.tiles) = ([0; 64], [EMPTY; 8]), // tilerelease
            // SAFETY: the program says that there are 64 bytes that may be written.
            (0x49, 1, true) => unsafe { (instruction.memory().address as *mut [u8; 64]).write(self.config) },
            (0x49, 3, false) => self.tile(tile).data = EMPTY.data, // tilezero
            (0x4B, 1 | 3, true) => self.load(tile, instruction.memory()),
            (0x4B, 2, true) => self.store(tile, instruction.memory()),
            (0x5C, 2, false) => self.multiply(instruction.operands, bf16_products),
            (0x5E, 3, false) => self.multiply(instruction.operands, byte_products::<true, true>),
            (0x5E, 2, false) => self.multiply(instruction.operands, byte_products::<true, false>),
            (0x5E, 1, false) => self.multiply(instruction.operands, byte_products::<false, true>),
            (0x5E, 0, false) => self.multiply(instruction.operands, byte_products::<false, false>),
            _ => fault("an illegal instruction that is not one of AMX's"),
        }
    }

    /// LDTILECFG, for palette 1: 8 tiles of at most 16 rows of at most 64 bytes.
    fn load_config(&mut self, memory: &Memory) {
        // SAFETY: the program says that there are 64 bytes that may be read.
        let config = unsafe { (memory.address as *const [u8; 64]).read() };
        require(config[0] == 1, "a palette other than 1");
        require(config[1..16].iter().all(|&byte| byte == 0), "a start row, or reserved bytes, other than 0");
        require(config[32..48].iter().chain(&config[56..]).all(|&byte| byte == 0), "a ninth tile");
        self.config = config;
        for (i, tile) in self.tiles.iter_mut().enumerate() {
            let row_bytes = usize::from(u16::from_le_bytes([config[16 + 2 * i], config[17 + 2 * i]]));
            let rows = usize::from(config[48 + i]);
            require(rows <= ROWS && row_bytes <= ROW_BYTES, "a tile of more than 16 rows of 64 bytes");
            require((rows == 0) == (row_bytes == 0) && row_bytes % 4 == 0, "a tile of no rows, or of parts of numbers");
            *tile = Tile { rows, row_bytes, ..EMPTY };
        }
    }

    fn tile(&mut self, number: usize) -> &mut Tile {
        require(self.tiles[number].rows > 0, "a tile that is not configured");
        &mut self.tiles[number]
    }

    /// TILELOADD, and TILELOADDT1, which differs in a hint.
    fn load(&mut self, number: usize, memory: &Memory) {
        let tile = self.tile(number);
        tile.data = EMPTY.data;
        for row in 0..tile.rows {
            let from = memory.address.wrapping_add(row.wrapping_mul(memory.stride)) as *const u8;
            // SAFETY: the program says that there are these rows.
            unsafe { from.copy_to_nonoverlapping(tile.data[row].as_mut_ptr().cast(), tile.row_bytes) };
        }
    }

    /// TILESTORED
    fn store(&mut self, number: usize, memory: &Memory) {
        let tile = self.tile(number);
        for row in 0..tile.rows {
            let to = memory.address.wrapping_add(row.wrapping_mul(memory.stride)) as *mut u8;
            // SAFETY: the program says that there are these rows, and that they may be written.
            unsafe { tile.data[row].as_ptr().cast::<u8>().copy_to_nonoverlapping(to, tile.row_bytes) };
        }
    }

    /// `sums (M, N) += a (M, K) * b (K, N)`, in groups of 4 bytes. What is not configured is 0.
    fn multiply(&mut self, [sums, a, b]: [usize; 3], add_products: fn(&mut Rows, &Rows, &Rows)) {
        require(sums != a && a != b && b != sums, "one operand is used twice");
        require(b < self.tiles.len(), "a ninth tile");
        let (a, b) = (*self.tile(a), *self.tile(b));
        let sums = self.tile(sums);
        require(sums.rows == a.rows && sums.row_bytes == b.row_bytes && a.row_bytes / 4 == b.rows, "shapes differ");
        add_products(&mut sums.data, &a.data, &b.data);
    }
}

/// TDPBF16PS: the first numbers of the pairs and the second ones are summed separately, each sum starting from 0; the
/// total of both sums is then added to the previous value. Numbers too small for a normal float32 count as 0, both as
/// inputs and as results.
fn bf16_products(sums: &mut Rows, a: &Rows, b: &Rows) {
    #[target_feature(enable = "avx2,fma")]
    fn with_fma(sums: &mut Rows, a: &Rows, b: &Rows) {
        let halves = [0, 16].map(|bits| {
            let number = |pair: u32| normal(f32::from_bits(pair >> bits << 16));
            let mut sums = [[0.0_f32; DWORDS]; ROWS];
            for (sums, a) in sums.iter_mut().zip(a) {
                for (a, b) in a.iter().zip(b) {
                    sums.iter_mut().zip(b).for_each(|(sum, b)| *sum = normal(number(*a).mul_add(number(*b), *sum)));
                }
            }
            sums
        });
        for ((sums, first), second) in sums.iter_mut().zip(halves[0]).zip(halves[1]) {
            for ((sum, first), second) in sums.iter_mut().zip(first).zip(second) {
                *sum = normal(normal(f32::from_bits(*sum)) + normal(first + second)).to_bits();
            }
        }
    }
    require(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"), "needs fused multiply-add");
    // SAFETY: the processor has both features, as was just asked.
    unsafe { with_fma(sums, a, b) }
}

#[inline(always)]
fn normal(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0_f32.copysign(x) } else { x }
}

/// TDPBSSD and its kin: the products of four bytes, signed or unsigned, are added modulo 2^32.
fn byte_products<const A_SIGNED: bool, const B_SIGNED: bool>(sums: &mut Rows, a: &Rows, b: &Rows) {
    let number = |bytes: u32, signed: bool| if signed { bytes.cast_signed() >> 24 } else { (bytes >> 24) as i32 };
    for bits in [24, 16, 8, 0] {
        for (sums, a) in sums.iter_mut().zip(a) {
            for (a, b) in a.iter().zip(b) {
                let a = number(a << bits, A_SIGNED);
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = sum.wrapping_add(a.wrapping_mul(number(b << bits, B_SIGNED)).cast_unsigned());
                }
            }
        }
    }
}
