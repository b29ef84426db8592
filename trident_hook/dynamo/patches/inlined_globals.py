"""Where the globals of an inlined function are looked up."""

from __future__ import annotations

import sys

from .registry import is_capturing, patch


@patch("globals of inlined functions", is_lesson=False, gone_when="Dynamo looks them up in the function's own globals")
def inlined_globals(changes) -> None:
    """Globals of an inlined function are those of the function. Dynamo reads them from the module that `__name__` tells,
    which is another one where a library has copied a module's globals into generated code, and none where the module was
    made without being registered (`exec`, a loader's `exec_module`)."""
    from ..names import DictGetItemSource, GlobalSource, InliningInstructionTranslator, VariableBuilder

    def make(original):
        def get_globals_source_and_value(self, name):
            scope = self.f_globals
            module = sys.modules.get(scope.get("__name__"))
            if not is_capturing() or (module is not None and vars(module) is scope):
                return original(self, name)
            source = GlobalSource(self.output.install_global_by_id("___unnamed_scope", scope))
            return scope, VariableBuilder(self, source)(scope), DictGetItemSource(source, name)

        return get_globals_source_and_value

    changes.replace(InliningInstructionTranslator, "get_globals_source_and_value", make)
