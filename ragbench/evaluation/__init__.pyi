from .causes import (
    CAUSES,
    CORRECTNESS,
    STAGE_OF,
    diagnose,
)
from .decision import (
    Arm,
    Conclusion,
)
from .evaluation_plan import EvaluationPlan
from .evaluator import (
    decide,
    evaluate,
    score,
)
from .folder import (
    FILES,
    load_result,
    load_results,
    result_folders,
    save,
    save_roles,
)
from .output import SystemOutput
from .parameters import (
    WHERE,
    check_models,
    check_parameters,
    check_requests,
    config_name,
    configuration,
    notebook_parameters,
    pipeline_settings,
    typed,
)
from .preparation import check_evaluation
from .records import (
    cost_facts,
    costs_of,
)
from .regressions import (
    check_comparable,
    compare_results,
)
from .requests import (
    answer_all,
    ask_all,
    system_of,
)
from .result import (
    Result,
    environment,
    new_result,
    own_version,
)
from .results import Results
from .spec import (
    CRITERIA,
    SUITES,
    EvaluationSpec,
    select_categories,
    select_questions,
    select_suite,
    spec_of,
    spec_of_texts,
)
from .targets import (
    Targets,
    check_gates_measured,
    load_targets,
    verdict,
)

__all__ = [
    "CAUSES",
    "CORRECTNESS",
    "CRITERIA",
    "FILES",
    "STAGE_OF",
    "SUITES",
    "WHERE",
    "Arm",
    "Conclusion",
    "EvaluationPlan",
    "EvaluationSpec",
    "Result",
    "Results",
    "SystemOutput",
    "Targets",
    "answer_all",
    "ask_all",
    "check_comparable",
    "check_evaluation",
    "check_gates_measured",
    "check_models",
    "check_parameters",
    "check_requests",
    "compare_results",
    "config_name",
    "configuration",
    "cost_facts",
    "costs_of",
    "decide",
    "diagnose",
    "environment",
    "evaluate",
    "load_result",
    "load_results",
    "load_targets",
    "new_result",
    "notebook_parameters",
    "own_version",
    "pipeline_settings",
    "result_folders",
    "save",
    "save_roles",
    "score",
    "select_categories",
    "select_questions",
    "select_suite",
    "spec_of",
    "spec_of_texts",
    "system_of",
    "typed",
    "verdict",
]
