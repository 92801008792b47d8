# SPDX-License-Identifier: GPL-2.0-or-later
"""Traces and recordings, in the cache, for tests that only read them.

To trace a guest takes most of the CPU time of a test of what reads traces.  The
first test that needs a trace makes it; all others, of the same QEMU, the same
agent, the same guest and the same options, read that.  Those who make them are
tested by others, each time: record, rr, service.
"""

import sys

import backtrail
import kept
import qemu

KEEP = 24                       # in the cache; each has some 50 MB


def made(make, *inputs):
    """The folder that make(folder) fills.

    inputs are strings that say of which guest it is, and how it is traced; the
    files that they name count by what they contain, and so does the module that
    has make.
    """
    module = sys.modules[make.__module__].__file__
    return kept.folder('recorded', KEEP, [
        kept.content(qemu.patched()), kept.content(backtrail.binary()),
        kept.content(module), make.__qualname__,
        *kept.described(inputs)], make)
