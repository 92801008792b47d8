# SPDX-License-Identifier: GPL-2.0-or-later
"""Traces of hostile contents in large numbers, read by any command.

As the part traces, but what is printed is not compared with anything, which
takes most of the time there, and each trace is read by several commands in one
process: with sanitizers, what counts is that a command ends by itself, within
what it may take, and says what is wrong.  An input is one trace that one command has read.
"""

import os

import traces

READ = 7                        # commands that read each trace
TWO_FILES = (('diff',), ('diff', '--json'), ('report',), ('info',),
             ('verify', '--json'), ('script', '--events'), ('calls',),
             ('diff', '--json', '--top=0'))


class Part(traces.Part):
    name = 'inputs'
    samples = tuple(s for s in traces.SAMPLES if s not in ('large', 'tree'))
    leaks = 0.2                 # of commands that have a process of their own
    apart = 0.1                 # of traces whose commands have

    def round(self):
        r = self.random
        for name in self.files():
            os.unlink(name)
        self.make_trace(self.path)
        self.counts['traces'] += 1
        commands = [(*command, self.path)
                    for command in r.sample(traces.READ, READ)]
        kind = r.randrange(4)
        if kind == 0:
            commands.append(('repair', '-f', '-o', self.other, self.path))
        elif kind == 1:
            commands.append(('repair', '--json', '--in-place', self.path))
        else:
            second = os.path.join(self.folder, 'z.btrail')
            self.make_trace(second)
            commands.append(('merge', '-f', '-o', self.other, self.path,
                             second) if kind == 2 else
                            (*r.choice(TWO_FILES), self.path, second))
        self.run_all(commands)

    def run_all(self, commands):
        """In one process, which saves most of the time.  If it has ended before
        all have, the one that did that runs again, by itself."""
        out, err = self.out, self.out + '.err'
        if self.random.random() < self.apart:
            for command in commands:
                self.counts['inputs'] += 1
                self.command(*command)
            return
        for command in commands:
            self.say(' '.join(command))
        status, seconds, mib, codes = self.warm[0].run_all(commands, out, err)
        self.counts['inputs'] += len(codes)
        self.counts['runs'] += len(codes)
        for i, code in enumerate(codes):
            self.judge(commands[i], (0, 1, 2, 3), code, seconds, mib,
                       f'{out}{i}', f'{err}{i}')
        if len(codes) < len(commands):
            words = commands[len(codes)]
            self.counts['inputs'] += 1
            self.command(*words)
            self.say('it has ended by itself, but not after the others')
            self.judge(words, (0, 1, 2, 3), status, seconds, mib,
                       f'{out}{len(codes)}', f'{err}{len(codes)}')
            self.run_all(commands[len(codes) + 1:])
