# SPDX-License-Identifier: GPL-2.0-or-later
"""kill -9 of the service and of agents, at any moment.

In a round, a guest has sessions of each kind, and the service is killed and
started again, also before it has begun again.  Beside it another guest is
traced by agents of its own, which are killed and followed by others.  The
guests go on.  In the end each part of each trace is complete, no record is
unaccounted for, and nothing is left behind.
"""

import contextlib
import glob
import os
import re
import shutil
import time

import backtrail
import booted
import campaign
import guest
import qemu
import service
from service import wait_until

WORDS = 'bt.workload=sorter,beat', 'bt.end=stay', 'no_timer_check'
KILLS = 8                       # of the service in a round
AGENTS = 4                      # in a round
GROWN_FDS = 8                   # of a process, after all is over
GROWN_MIB = 200
STOPPED = 1
# What verify reports of records that another agent had, and how many it can
# have had in its memory
NOT_GIVEN = re.compile('([0-9]+) records from here on are in a file that was '
                       'not given')
UNWRITTEN = 1 << 20


def records(info):
    """How many records each vCPU has in a file.  A file that was cut off may
    have nothing of a vCPU whose stream it gets an end of."""
    return {s['vcpu']: s['records'] for s in info['streams'] if s['records']}


class Part(campaign.Part):
    name = 'kills'

    def begin(self):
        try:
            backtrail.binary()
            service.binary()
            guest.folder()
            self.stack = contextlib.ExitStack()
            self.service = service.Service()
            self.stack.callback(self.service.__exit__)
            self.service.start()
            self.vm = service.Guest(self.service, *WORDS, smp=2)
            self.stack.callback(self.vm.close)
            self.vm.start_booted()
            self.alone = qemu.Qemu(['-accel', 'tcg', '-smp', '2', '-device',
                                    'branch-trace', *guest.args(*WORDS)],
                                   qmp_sockets=3)
            self.stack.callback(self.alone.close)
            booted.start(self.alone, '^BT: beat')
        except qemu.QemuError as e:
            self.end()
            raise campaign.Skip(str(e)) from None
        self.before = None

    def end(self):
        if hasattr(self, 'stack'):
            self.stack.close()

    def recover(self):
        """Others for the rounds that follow"""
        self.end()
        self.begin()

    def files(self):
        with open(os.path.join(self.folder, 'service'), 'w',
                  encoding='utf-8') as f:
            f.write(self.service.output())
        return [self.service.traces, self.folder,
                *(self.alone.path(n) for n in os.listdir(self.alone.dir)
                  if n.startswith('agent-'))]

    def round(self):
        for name in glob.glob(self.alone.path('agent-*')):
            os.unlink(name)
        beats = self.beats()
        if self.random.random() < 0.5:
            self.service_round()
            self.agents_round()
        else:
            self.agents_round()
            self.service_round()
        for vm, before in zip((self.vm, self.alone), beats):
            wait_until(lambda: self.count_beats(vm) > before,
                       f'{before} beats, and no more', 120)
        self.leftovers()

    def beats(self):
        return [self.count_beats(vm) for vm in (self.vm, self.alone)]

    @staticmethod
    def count_beats(vm):
        if vm.process.poll() is not None:
            raise campaign.Failure(f'QEMU ended: {vm.process.returncode}: '
                                   f'{vm.output()}')
        return vm.serial().count('BT: beat')

    def pause(self, longest=1.0):
        """Some time: often short, sometimes longer"""
        time.sleep(longest * self.random.random() ** 3)

    # The service

    def sessions(self):
        """What they were started with, of some kinds"""
        r = self.random
        kinds = [dict(overflow=r.choice(('pause', 'drop'))),
                 dict(privilege=r.choice(('user', 'kernel')),
                      split=r.choice((1 << 20, 4 << 20))),
                 dict(mode='last', size={'bytes': r.choice((4, 16)) << 20}),
                 dict(mode='last', size={'seconds': 2}, privilege='user'),
                 dict(vcpus=[r.randrange(2)], split=2 << 20),
                 dict(names='off', overflow='drop')]
        return {f's{i}': kind for i, kind in
                enumerate(r.sample(kinds, r.randrange(2, 5)))}

    def service_round(self):
        sessions = self.sessions()
        self.say(f'sessions: {sessions}')
        for name, kind in sessions.items():
            self.vm.ask('start', session=name, file=name, **kind)
            self.pause(0.5)
        capture = self.vm.qmp.command('query-branch-trace')['capture']
        kills = self.random.randrange(1, KILLS + 1)
        for _ in range(kills):
            self.pause(2)
            self.kill_service(sessions)
        self.counts['restarts survived'] += kills * len(sessions)
        info = self.vm.qmp.command('query-branch-trace')
        if info['capture'] != capture or info['state'] != 'active':
            raise campaign.Failure(f'{capture} has become {info}')
        for name in sessions:
            self.vm.wait_records(name, timeout=120)
        last = {}
        order = list(sessions)
        self.random.shuffle(order)
        for name in order:
            last[name] = self.vm.ask('stop', session=name)
            if last[name]['state'] != 'ended':
                raise campaign.Failure(f'{name}: {last[name]}')
        info = self.vm.qmp.command('query-branch-trace')
        with self.vm.standing():
            # It ends when all that was cut off is completed.
            status = self.service.stop(300)
            if status:
                raise campaign.Failure(f'backtraild ended with {status}: '
                                       f'{self.service.output()[-3000:]}')
            if self.service.state():
                raise campaign.Failure(f'sessions that have ended are in its '
                                       f'state: {self.service.state()}')
            self.check_traces(sessions, last, info)
        shutil.rmtree(self.service.trace('vm'))
        self.service.start()

    def kill_service(self, sessions):
        """Once, or before it has begun again; then its sessions continue."""
        begun = self.service.output().count('begins')
        while True:
            self.say('kill the service')
            self.service.kill()
            self.counts['kills'] += 1
            self.pause(0.5)
            self.service.start()
            if self.random.random() < 0.7:
                break
            # At any moment of its beginning
            self.pause(1.5)
            begun = self.service.output().count('begins')
        self.say('wait until it has begun again')

        def active():
            states = {s['session']: s['state'] for s in
                      self.vm.ask('status')['sessions']}
            return all(states.get(name) == 'active' for name in sessions)

        try:
            wait_until(active, 'sessions', 120)
        except (TimeoutError, service.Refused) as e:
            raise campaign.Failure(
                f'sessions do not continue: {e}: {begun} before, '
                f'{self.service.output()[-3000:]}') from None

    def check_traces(self, sessions, last, info):
        top = self.service.trace('vm')
        files = [os.path.join(folder, name) for folder, _, names in
                 os.walk(top) for name in names if name.endswith('.btrail')]
        for path in files:
            status = backtrail.run_json('info', path, check=False)['file']
            if not status['complete']:
                raise campaign.Failure(f'{path} is not completed: {status}')
        self.counts['files'] += len(files)
        for name in os.listdir(top):
            if name.startswith('.') and name != '.guest':
                raise campaign.Failure(f'{name} is left behind')
        for name, kind in sessions.items():
            path = os.path.join(top, f'{name}.btrail')
            streams = self.verified(path)
            records = sum(s['records'] for s in streams)
            if kind.get('mode') == 'last':
                continue
            # Its status counts what it had before it was killed, too, but
            # only what is in files.
            if records != last[name]['records']:
                raise campaign.Failure(
                    f'{name}: {records} records in files, '
                    f'{last[name]["records"]} by its status')
            if not kind.keys() & {'privilege', 'vcpus'}:
                self.check_ends(streams, info)

    def check_ends(self, streams, info):
        """The indices of what has everything are those that QEMU counts.

        A session can end before the capture does.
        """
        vcpus = {v['cpu-index']: v for v in info['vcpus']}
        for s in streams:
            if s['end_index'] > vcpus[s['vcpu']]['records']:
                raise campaign.Failure(f'{s} ends after {vcpus}')

    def verified(self, *paths, killed=False):
        """verify finds no fault, and all records are accounted for; returns
        the streams.

        What an agent had drained and not written when it was killed is in no
        file; it is at most what it gathers for a chunk of each vCPU."""
        result = backtrail.run('verify', *paths, check=False)
        faults = result.stderr.decode().splitlines()
        unwritten = [NOT_GIVEN.search(line) if killed else None
                     for line in faults]
        if result.returncode and not (faults and all(
                match and int(match[1]) <= UNWRITTEN for match in unwritten)):
            raise campaign.Failure(f'verify {paths}: {result.returncode}: '
                                   f'{faults[-20:]}')
        streams = backtrail.run_json('info', *paths)['streams']
        for s in streams:
            elsewhere = s.get('elsewhere', 0)
            # What a filter leaves out is in no stream's indices.
            if s['records'] + s['lost'] + elsewhere != s['end_index'] or \
                    s['damage']:
                raise campaign.Failure(f'{paths}: unaccounted for: {s}')
            self.counts['records compared'] += s['records']
        self.counts['traces verified'] += 1
        return streams

    # Agents

    def agents_round(self):
        r = self.random
        overflow = r.choice(('pause', 'drop'))
        first = [('--session', 'kills', '--overflow', overflow)]
        last = None
        traces = []
        for i in range(r.randrange(2, AGENTS + 1)):
            options = list(first.pop() if first else ('--attach',))
            if r.random() < 0.5:
                options += ['--split', str(r.choice((1 << 20, 4 << 20)))]
            options += ['--fsync', r.choice(('end', 'none', '50ms'))]
            options += ['--names', r.choice(('auto', 'off'))]
            path = self.alone.path(f'agent-{i}.btrail')
            traces.append(path)
            self.say(f'agent {i}: {options}')
            agent = backtrail.Record(self.alone.qmp_paths[1], path,
                                     self.alone.path(f'agent-{i}.log'),
                                     *options)
            with agent:
                if i == 0:
                    self.wait_capture(agent)
                self.pause(2)
                if r.random() < 0.2:
                    self.wait_taken(agent, path)
                    last = self.stop_agent(agent)
                    break
            self.counts['kills'] += 1
        if not last:
            last = self.last_agent(traces)
        with self.alone.standing():
            self.check_agents(traces, last)

    def wait_capture(self, agent):
        """Until there is one: nobody could take it over before."""
        wait_until(lambda: agent.process.poll() is not None or
                   self.alone.qmp.command('query-branch-trace')['state'] ==
                   'active', agent.output, 120)
        if agent.process.poll() is not None:
            raise campaign.Failure(f'record: {agent.output()}')

    def last_agent(self, traces):
        """One that is not killed"""
        path = self.alone.path('agent-last.btrail')
        traces.append(path)
        with backtrail.Record(self.alone.qmp_paths[1], path,
                              self.alone.path('agent-last.log'),
                              '--attach') as agent:
            self.wait_taken(agent, path)
            self.pause(1)
            return self.stop_agent(agent)

    def wait_taken(self, agent, path):
        """Until this agent has the capture: it could not take over one that
        has ended."""
        wait_until(lambda: agent.process.poll() is not None or
                   os.path.exists(path), agent.output, 120)
        self.wait_capture(agent)

    def stop_agent(self, agent):
        """End the capture; what QEMU counts"""
        info = self.alone.qmp.command('branch-trace-stop',
                                      {'capture': 'kills'})
        status = agent.wait(240)
        if status:
            raise campaign.Failure(f'record: status {status}: '
                                   f'{agent.output()}')
        return info

    def check_agents(self, traces, info):
        """What was killed is repaired; together it is one trace."""
        files = []
        for path in traces:
            stem = path[:-len('.btrail')]
            parts = sorted(glob.glob(f'{stem}.btrail') +
                           glob.glob(f'{stem}.[0-9]*.btrail'))
            for part in parts:
                # A file that has only its header is of no trace yet: its agent
                # was killed before it had the capture.
                if os.path.getsize(part) > 64:
                    files.append(part)
        for path in files:
            before = backtrail.run_json('info', path, check=False)
            status = backtrail.run('repair', '--in-place', path,
                                   check=False).returncode
            # One that nothing was written into yet has nothing to keep.
            if status not in ((0, 3) if records(before) else (0, 1, 3)):
                raise campaign.Failure(f'repair {path}: {status}')
            after = backtrail.run_json('info', path, check=False)
            if records(before) != records(after):
                raise campaign.Failure(f'repair of {path} has other records')
        self.counts['files'] += len(files)
        streams = self.verified(*files, killed=True)
        vcpus = {v['cpu-index']: v for v in info['vcpus']}
        for s in streams:
            if s['end_index'] != vcpus[s['vcpu']]['records']:
                raise campaign.Failure(f'{s} is not {vcpus}')
            # Besides what QEMU has lost, what an agent had drained and not
            # written when it was killed
            if s['lost'] + s.get('elsewhere', 0) < \
                    vcpus[s['vcpu']]['lost']:
                raise campaign.Failure(f'{s} lacks less than {vcpus}')

    # What is left behind

    def leftovers(self):
        now = {}
        for name, process in (('service', self.service.process),
                              ('QEMU', self.vm.process),
                              ('QEMU alone', self.alone.process)):
            now[name] = (qemu.descriptors(process),
                         qemu.resident(process) >> 20)
        self.say(f'descriptors and MiB: {now}')
        before, self.before = self.before or now, self.before or now
        for name, (fds, mib) in now.items():
            if fds > before[name][0] + GROWN_FDS or \
                    mib > before[name][1] + GROWN_MIB:
                raise campaign.Failure(f'{name} has grown from '
                                       f'{before[name]} to {now[name]}')
