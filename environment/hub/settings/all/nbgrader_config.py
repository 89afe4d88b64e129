# nbgrader's, for the class: which course, and the folder by which teacher and learners exchange notebooks.
import os

c = get_config()  # noqa: F821

c.CourseDirectory.course_id = os.environ["QUANTLAB_COURSE"]
c.Exchange.root = os.environ["QUANTLAB_EXCHANGE"]
