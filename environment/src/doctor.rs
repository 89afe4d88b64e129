//! `cargo lab doctor`: what is installed, where, in which versions, how fast a kernel is, and whether sandboxes grade.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};

use crate::checkout::Checkout;
use crate::home::{Home, SHARED, remove_if_there, write_atomically};
use crate::jupyter::installed::Installed;
use crate::jupyter::warm;
use crate::python;
use crate::sandbox::cgroup::Cgroup;
use crate::sandbox::{self, LAYERS, Layer};
use crate::setup::libtorch::{self, TORCH_VERSION};
use crate::setup::models::Model;
use crate::setup::toolchain::Toolchain;
use crate::setup::{self, EVCXR_VERSION};
use crate::ui::{described, human_size, output_of, plain};

/// A lesson of one exercise, with the answer.
const LESSON: &str = include_str!("doctor-lesson.ipynb");

/// Prints the report; with `time`, starts a kernel and measures it, and grades a notebook in each sandbox that holds.
pub fn doctor(as_json: bool, time: bool) -> Result<()> {
    let home = Home::find()?;
    let timing = if time { Some(measure_kernel(&home)?) } else { None };
    let set_up = Checkout::find().and_then(|checkout| setup::check_finished(&checkout));
    let mut report = examine(&home, set_up.is_ok());
    if let Some(timing) = timing {
        report.extend(timing);
    }
    if as_json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        for (key, value) in &report {
            println!("{key:<19} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        if let Err(error) = set_up {
            println!("\n{}", plain(&described(&error)));
        }
    }
    Ok(())
}

fn examine(home: &Home, set_up: bool) -> Map<String, Value> {
    let mut report = Map::new();
    let mut add = |key: &str, value: Value| report.insert(key.to_owned(), value);
    add("home", json!(home.root()));
    add("disk_used", json!(human_size(home.disk_used())));
    match Toolchain::find() {
        Ok(tools) => {
            add("rust", json!(tools.rustc));
            add("rust_src", json!(tools.has_rust_src()));
            add("cxx", json!(tools.cxx_version));
            add("python", json!(tools.python_version));
        }
        Err(error) => drop(add("toolchain", json!(format!("{error:#}")))),
    }
    add("gpu", gpu());
    add("amx", json!(amx(home)));
    for layer in LAYERS {
        let holds = layer.probe().map_or_else(|why| format!("no: {why:#}"), |()| "holds".to_owned());
        add(&format!("sandbox_{}", layer.name()), json!(holds));
    }
    let group = Cgroup::create(1000).is_some();
    add("sandbox_cgroup", json!(if group { "holds" } else { "no: this user cannot create control groups" }));
    let smollm2 = if Model::Smollm2.path(home).is_file() { "there" } else { "no: cargo lab setup --model smollm2" };
    add("model_smollm2", json!(smollm2));
    let installed = Installed::read(home);
    add("set_up", json!(set_up));
    add("shared", json!(home.root().join(SHARED).exists()));
    if let Ok(installed) = &installed {
        add(
            "libtorch",
            json!(format!(
                "{TORCH_VERSION} ({}), {}",
                if installed.cuda { "CUDA" } else { "CPU" },
                installed.libtorch.display()
            )),
        );
        if let Ok(checkout) = Checkout::find() {
            let library = installed.library_for(home, &checkout);
            add("kernel_fresh", json!(warm::is_fresh(home, &library).unwrap_or(false)));
            add("support_crate", json!(library));
        }
    }
    if home.evcxr().join("bin/evcxr_jupyter").is_file() {
        add("evcxr_jupyter", json!(EVCXR_VERSION));
    }
    if let Ok(version) = output_of(Command::new(home.python_bin("jupyter")).args(["lab", "--version"])) {
        add("jupyterlab", json!(version.trim()));
    }
    report
}

/// The outcome of trying a processor's tiles, which the kernels' crate keeps (`kernels/src/amx/trial.rs`).
fn amx(home: &Home) -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !processor.lines().any(|line| line.starts_with("flags") && line.contains("amx_tile")) {
        return "none (the processor has no tiles)".to_owned();
    }
    let tried = fs::read_to_string(home.root().join("amx-trials")).unwrap_or_default();
    let last = tried.lines().last().and_then(|line| line.rsplit_once(": "));
    last.map_or("not tried yet: the first model to be loaded tries it".to_owned(), |(_, result)| result.to_owned())
}

fn gpu() -> Value {
    if !libtorch::has_nvidia_gpu() {
        return json!("none (no NVIDIA GPU found)");
    }
    let query = ["--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"];
    json!(output_of(Command::new("nvidia-smi").args(query)).unwrap_or_default().trim())
}

/// Seconds to a ready kernel and to a first value, of a plain cell and of one that shows a table (medians), memory.
fn measure_kernel(home: &Home) -> Result<Map<String, Value>> {
    setup::setup(&Checkout::find()?, &setup::Request::default())?;
    let mut timing = Map::new();
    python::follow(&mut python::script(home, "time")?, |event| {
        if event["event"] == "timing" {
            timing = event.as_object().cloned().unwrap_or_default();
            timing.remove("event");
        }
    })?
    .into_result()?;
    for layer in LAYERS.into_iter().filter(|layer| layer.probe().is_ok()) {
        let graded = measure_grading(home, layer).unwrap_or_else(|error| json!(format!("no: {error:#}")));
        timing.insert(format!("grade_{}_s", layer.name()), graded);
    }
    Ok(timing)
}

/// Seconds in which a notebook with a right answer gets all points in this sandbox: being able to enter a layer does
/// not mean that what a kernel needs can be reached from there.
fn measure_grading(home: &Home, layer: Layer) -> Result<Value> {
    let dir = home.own_kernels().join(format!("doctor-{}", std::process::id()));
    let measured = grade_in(&dir, layer);
    remove_if_there(&dir)?;
    measured
}

fn grade_in(dir: &Path, layer: Layer) -> Result<Value> {
    let [course, work, out] = ["course", "work", "out"].map(|name| dir.join(name));
    write_atomically(&course.join("01-doctor/solution.ipynb"), LESSON.as_bytes())?;
    write_atomically(&work.join("doctor.ipynb"), LESSON.as_bytes())?;
    let lab = |command: &str| {
        let mut lab = Command::new(std::env::current_exe()?);
        lab.arg(command).arg("--lessons").arg(&course).env(sandbox::CHOSEN, layer.name());
        anyhow::Ok(lab)
    };
    output_of(&mut lab("release")?)?;
    let start = Instant::now();
    output_of(lab("grade")?.arg("--output").arg(&out).arg(&work))?;
    let seconds = start.elapsed().as_secs_f64();
    let grades = std::fs::read_to_string(out.join("grades.csv"))?;
    let line = grades.lines().nth(1).unwrap_or_default();
    ensure!(line.starts_with("doctor,01-doctor,7,7,0,graded,"), "a correct answer is not graded as correct: {line}");
    Ok(json!((seconds * 1000.0).round() / 1000.0))
}
