# SPDX-License-Identifier: GPL-2.0-or-later
"""What a case of tests/guests has: guests, and a list of what must hold."""

import os

import account
import backtrail
import kernels
import realguest


class Lab:
    """For one case; its files are in folder."""

    def __init__(self, folder, kernel=None):
        self.folder = folder
        self.kernel = kernel    # that the case is about, or None
        self.failures = []      # (what it is about, what is wrong)
        self.facts = {}         # what came, for people

    def guest(self, name=None, **options):
        """A guest with a kernel of the table; see realguest.RealGuest."""
        kernel = kernels.table()[name] if name else self.kernel
        return realguest.RealGuest(kernel, self.folder, **options)

    def check(self, about, holds, wrong):
        """Note what must hold, and about what it is."""
        if not holds:
            self.failures.append((about, wrong))
        return bool(holds)

    def programs(self, *others):
        """The functions of the guest's own programs, also under other names of
        their file"""
        return account.Programs(kernels.programs(kernels.arch(self.kernel)),
                                ('programs', *others))

    @staticmethod
    def unnamed(less=None):
        """Of the records of a trace that says less, see RealGuest.traced(), how
        many may have no task: without events, processes that ended between two
        looks at the guest have no name"""
        return 0.02 if less is None or less.get('tasks') else 0.3

    def init_code(self, module):
        """What a module has only while it is loaded, for judge()"""
        path = os.path.join(self.folder, f'{module}.ko')
        with open(path, 'wb') as f:
            f.write(kernels.module(kernels.unpacked(self.kernel), module))
        return account.InitCode(path, module)

    def sound(self, trace):
        """The trace is whole."""
        result = backtrail.run('verify', trace, check=False)
        self.check('trace', result.returncode == 0,
                   f'verify: {result.stderr.decode().strip()}')

    def judge(self, trace, accounts, what='names', kernel=0.02, task=0.02,
              **options):
        """No name is wrong, and of the kernel's records and of all records at
        most these shares have no function, and no task."""
        verdict = account.judge(trace, accounts, **options)
        for wrong in verdict.samples():
            self.check(what, False, wrong)
        for kind, most in ('kernel', kernel), ('task', task):
            share = verdict.share(kind)
            self.facts[f'{what}: unknown {kind}'] = f'{share:.2%}'
            self.check(what, share <= most, f'{share:.2%} of the records of '
                       f'{kind} are unknown, not at most {most:.2%}')
        for kind in 'kernel', 'user', 'task':
            share = verdict.share(kind, 'wrong')
            if share:
                self.facts[f'{what}: wrong {kind}'] = f'{share:.2%}'
        self.facts[f'{what}: records'] = verdict.counts['task']
        return verdict
