# nbgrader's configuration for a course made of quantlab lessons: `cargo lab release --nbgrader` and
# `cargo lab grade` put it into the course directories that they make.

from nbgrader.converters import Autograde
from nbgrader.preprocessors import Execute as NbgraderExecute


class Execute(NbgraderExecute):
    def on_cell_executed(self, **kwargs):
        # evcxr's error replies have no name, on which nbgrader would stop; the error is in the outputs already.
        if "ename" in kwargs["execute_reply"]["content"]:
            super().on_cell_executed(**kwargs)


c = get_config()  # noqa: F821

c.CourseDirectory.course_id = "quantlab"
c.Autograde.autograde_preprocessors = [
    Execute if step is NbgraderExecute else step for step in Autograde.autograde_preprocessors.default()
]
# The kernel calls its language Rust, the notebooks' kernelspec rust.
c.ClearSolutions.code_stub = {"rust": "todo!()", "Rust": "todo!()"}
# A kernel builds an edited support crate before it answers; nbgrader's 60 s would be too short for that.
c.Execute.startup_timeout = 1200
# Each cell is compiled before it runs; nbgrader's 30 s would end measurements.
c.Execute.timeout = 120
