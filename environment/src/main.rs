//! `cargo lab`: sets up, starts, runs and checks the quantlab notebooks.

mod book;
mod cards;
mod check;
mod checkout;
mod clean;
mod dask;
mod doctor;
mod grade;
mod home;
mod isa_tests;
mod jupyter;
mod lessons;
mod locks;
// The library's file, so that both count memory alike: this program is there before the library can be built.
#[path = "../../support-crate/src/model/memory/available.rs"]
mod memory;
mod mutants;
mod new;
mod parallel;
mod parts;
mod prebuilt;
mod progress;
mod python;
mod run;
mod sandbox;
mod setup;
mod start;
mod sweep;
mod ui;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use home::Home;

/// Rust notebooks that measure and quantize language models.
#[derive(Parser)]
#[command(
    name = "cargo lab",
    bin_name = "cargo lab",
    version,
    after_help = "Everything is installed in one folder: QUANTLAB_HOME, or quantlab in your cache folder.\n\
                  Begin with: cargo lab start"
)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what the notebooks need; a second call does only what is missing
    Setup(setup::Request),
    /// Open JupyterLab in the browser (sets up first if needed)
    Start {
        /// A notebook to open
        notebook: Option<PathBuf>,
        /// Print the address instead of opening a browser
        #[arg(long)]
        no_browser: bool,
        /// If there is no set-up: take what was compiled elsewhere, as `cargo lab setup --from` does
        #[arg(long, value_name = "URL|FILE")]
        from: Option<String>,
    },
    /// Make a notebook of your own, which loads a model, continues a text and times it
    New {
        /// Its name, in `own` beside the lessons; or its path
        name: PathBuf,
    },
    /// Run notebooks without a browser, cell by cell (sets up first if needed)
    Run {
        /// The notebooks
        #[arg(required = true)]
        notebooks: Vec<PathBuf>,
        /// Folder for the executed copies [default: `executed` in QUANTLAB_HOME]
        #[arg(long, value_name = "DIR", conflicts_with = "inplace")]
        output: Option<PathBuf>,
        /// Write the outputs into the notebooks themselves
        #[arg(long)]
        inplace: bool,
        /// Also write each copy as a page, FILE.html beside it, that needs no other file and no network
        #[arg(long)]
        html: bool,
        /// Time limit for one cell
        #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
        timeout: u64,
    },
    /// List sentences of the lessons that have a number or a comparison, and that no claim holds to their run
    Claims {
        /// A lesson, by name or the beginning of it [default: all]
        lesson: Option<String>,
    },
    /// Make the learners' starters from the solutions (sets up first if needed)
    Release(lessons::release::Request),
    /// Grade notebooks that were handed in; this runs their code (sets up first if needed)
    Grade(grade::Request),
    /// Measure many models in the same way, for one table (sets up first if needed)
    Sweep(sweep::Request),
    /// Run Dask for `cargo lab grade --scheduler` and `cargo lab sweep --scheduler`: `cargo lab dask scheduler`, and on each
    /// machine `cargo lab dask worker ADDRESS`
    Dask {
        /// What its own command takes
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Show what is installed, where, and which versions
    Doctor {
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Start a kernel and time it, and grade a notebook in each sandbox that works
        #[arg(long)]
        time: bool,
    },
    /// Run all checks: formatting, lints, tests, notebooks (sets up first if needed)
    Test(check::Request),
    /// Try whether the course's checks catch small mistakes in the reference answers
    Mutants(mutants::Request),
    /// Make the course's website from the solutions' outputs (fetches Sphinx the first time)
    Book {
        /// Folder for the pages [default: `book/html` in QUANTLAB_HOME]
        #[arg(long, value_name = "DIR")]
        output: Option<PathBuf>,
        /// Also print all pages into this file, with an outline and each answer unfolded (needs Chromium)
        #[arg(long, value_name = "FILE")]
        pdf: Option<PathBuf>,
    },
    /// Put the machines of a class beside each other, from the cards that lessons leave in `results`
    Cards {
        /// Holds STUDENT/LESSON/results/card.json
        folder: PathBuf,
        /// Folder for the page and the table [default: FOLDER-cards]
        #[arg(long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// Run a command in the kernel's environment, such as `cargo lab exec cargo bench -p quantlab`
    Exec {
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Write what set-up has compiled into a file, with which others set up in a minute or two (`--from`)
    Pack {
        /// The archive, such as quantlab.tar.gz; with --publish, a folder
        file: PathBuf,
        /// Write archive, list and signature into a folder that any web server can serve
        #[arg(long)]
        publish: bool,
        /// minisign's secret key [default: minisign's own]
        #[arg(long, value_name = "FILE", requires = "publish")]
        key: Option<PathBuf>,
    },
    /// List what set-up made, then remove it
    Clean {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Run a kernel (kernel.json calls this)
    #[command(hide = true)]
    Kernel { connection_file: PathBuf },
    /// Say what a kernel of this folder would be made from (the keeper of the spare kernel calls this)
    #[command(hide = true)]
    KernelState,
    /// Become the first process of a sandbox (`lab kernel` calls this)
    #[command(hide = true)]
    Sandboxed,
    /// Print what a notebook's cells do that its starter's do not (`lab grade` calls this)
    #[command(hide = true)]
    Remarks { notebook: PathBuf, starter: PathBuf },
    /// Grade the notebook of a folder that `cargo lab grade --scheduler` sent (a Dask worker calls this)
    #[command(hide = true)]
    GradeOne { folder: PathBuf },
    /// Answer what `cargo lab sweep --scheduler` asks (a Dask worker calls this)
    #[command(hide = true)]
    MeasureOne,
    /// End a kernel with its driver, and remove its build folder once it has ended (a kernel's start calls this)
    #[command(hide = true)]
    Janitor { dir: PathBuf, driver: u32 },
}

fn main() -> ExitCode {
    // Copies of this program stand for others in a kernel, and in a set-up.
    let name = std::env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let run_as = |name: String| jupyter::cargo::run_as(&name, &args).or_else(|| prebuilt::run_as(&name, &args));
    if let Some(done) = name.and_then(run_as) {
        return done.unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        });
    }
    match dispatch(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", ui::plain(&ui::described(&error)));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(task: Task) -> Result<ExitCode> {
    match task {
        Task::Setup(request) => setup::run(&request)?,
        Task::Start { notebook, no_browser, from } => start::start(notebook.as_deref(), no_browser, from)?,
        Task::New { name } => {
            let path = new::new(&name)?;
            println!("{}\n  open it: cargo lab start '{}'", path.display(), path.display());
        }
        Task::Run { notebooks, output, inplace, html, timeout } => {
            let destination = match output {
                _ if inplace => run::Destination::InPlace,
                Some(folder) => run::Destination::Folder(folder),
                None => run::Destination::Folder(Home::find()?.executed()),
            };
            run::run(&notebooks, &destination, timeout, html)?;
        }
        Task::Claims { lesson } => return lessons::claims::claims(lesson.as_deref()),
        Task::Release(request) => lessons::release::release(&request)?,
        Task::Grade(request) => grade::grade(&request)?,
        Task::Dask { args } => dask::dask(&args)?,
        Task::GradeOne { folder } => return grade::grade_one(&folder),
        Task::MeasureOne => return sweep::measure_one(),
        Task::Sweep(request) => sweep::sweep(&request)?,
        Task::Doctor { json, time } => doctor::doctor(json, time)?,
        Task::Test(request) => check::check(&request)?,
        Task::Mutants(request) => return mutants::mutants(&request),
        Task::Book { output, pdf } => {
            println!("The book begins at {}", book::book(output.as_deref(), pdf.as_deref())?.display());
        }
        Task::Cards { folder, output } => cards::cards(&folder, output.as_deref())?,
        Task::Exec { command } => return check::exec(&command),
        Task::Pack { file, publish: false, .. } => prebuilt::pack(&file)?,
        Task::Pack { file, key, .. } => prebuilt::publish(&file, key.as_deref())?,
        Task::Clean { yes } => clean::clean(yes)?,
        Task::Kernel { connection_file } => return jupyter::launch::launch(&connection_file),
        Task::KernelState => println!("{}", jupyter::launch::state()?),
        Task::Sandboxed => return sandbox::run_inside(),
        Task::Remarks { notebook, starter } => grade::print_remarks(&notebook, &starter)?,
        Task::Janitor { dir, driver } => jupyter::live::janitor(&dir, driver)?,
    }
    Ok(ExitCode::SUCCESS)
}
