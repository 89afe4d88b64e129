# nbgrader's, for a teacher, besides ../all.
import os

c = get_config()  # noqa: F821

# `lab grade ~/submitted --output ~/course` grades what `nbgrader collect` puts there: one gradebook for both.
c.CourseDirectory.root = os.path.expanduser("~/course")
c.CourseDirectory.submitted_directory = "../submitted"
