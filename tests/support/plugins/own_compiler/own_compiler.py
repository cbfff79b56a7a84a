"""A compiler of an installed package: the program ``own-compiler`` makes files for a Hailo-8."""

import tempfile
from pathlib import Path

from edgeveil.trainer.export.compilers.compiled import Compiled, NotCompiled, entry_of, run_compiler
from edgeveil.trainer.export.compilers.vendors import Compiler


class OwnCompiler(Compiler):
    """Calls ``own-compiler SOURCE TARGET``."""

    name = "own-compiler"
    program = "own-compiler"
    devices = ("hailo8",)
    makes_for = "a Hailo-8"

    def compile(self, one, device, program, ready):
        """Each model by one call; the source's tolerance holds."""
        found = Compiled(one.name, device, by="own-compiler 1")
        try:
            for model, data in one.data.items():
                with tempfile.TemporaryDirectory() as folder:
                    source, target = Path(folder, "source"), Path(folder, "target")
                    source.write_bytes(data)
                    run_compiler([str(program), str(source), str(target)], 60)
                    found.files[model] = target.read_bytes()
                found.entries[model] = entry_of(one.entries[model], found.files[model], device, one.name, found.by)
        except NotCompiled as error:
            return Compiled(one.name, device, why=f"{self.name} {error}")
        return found
