# SPDX-License-Identifier: GPL-2.0-or-later
"""Traces of hostile contents in large numbers, read by any command.

As the part traces, but what is printed is not compared with anything, which
takes most of the time there: with sanitizers, what counts is that a command ends
by itself, within what it may take, and says what is wrong.  An input is one
trace that one command has read.  Two processes and more share the work.
"""

import os

import traces

READ = 6                        # commands that read each trace
TWO_FILES = (('diff',), ('diff', '--json'), ('report',), ('info',),
             ('verify', '--json'), ('script', '--events'), ('calls',),
             ('diff', '--json', '--top=0'))


class Part(traces.Part):
    name = 'inputs'
    samples = tuple(s for s in traces.SAMPLES if s not in ('large', 'tree'))
    leaks = 0.02

    def round(self):
        r = self.random
        for name in self.files():
            os.unlink(name)
        self.make_trace(self.path)
        self.counts['traces'] += 1
        for command in r.sample(traces.READ, READ):
            self.input(*command, self.path)
        kind = r.randrange(4)
        if kind == 0:
            self.input('repair', '-f', '-o', self.other, self.path)
        elif kind == 1:
            self.input('repair', '--json', '--in-place', self.path)
        else:
            second = os.path.join(self.folder, 'z.btrail')
            self.make_trace(second)
            if kind == 2:
                self.input('merge', '-f', '-o', self.other, self.path, second)
            else:
                self.input(*r.choice(TWO_FILES), self.path, second)

    def input(self, *words):
        self.counts['inputs'] += 1
        self.command(*words)
