# SPDX-License-Identifier: GPL-2.0-or-later
"""gdb's commands that differ when it walks a trace.

gdb is in a window: the part of a trace that it has read, which is short, so that
reading it takes no time.  The server knows the whole trace: it does the
searching, and gdb's window is moved to the result.  trace-target.h has the
requests.
"""

import re

import gdb

# Records of a window before and after gdb's position, which it reads in 20 ms;
# and after it for gdb's own commands that go forwards
BEFORE, AFTER, AHEAD = 768, 256, 8192
# How far back a step searches for the caller of a function without lines
NEAR = 1 << 17


def quiet(line):
    return gdb.execute(line, to_string=True)


def send(text):
    connection = gdb.selected_inferior().connection
    if not isinstance(connection, gdb.RemoteTargetConnection):
        return None
    said = (connection.send_packet('qBacktrail.' + text) or b'E').decode()
    return None if said.startswith('E') else said


def tell_thread():
    """gdb may have asked about another one last."""
    thread = gdb.selected_thread()
    if thread:
        send(f'thread:{thread.ptid[1]:x}')


def ask(text):
    """What the server answers of gdb's thread; None if there is nothing
    there"""
    tell_thread()
    return send(text)


def number():
    """Of the instruction in the window; 0 if the window ends there; None if
    there is no window"""
    recording = gdb.current_recording()
    if recording is None or recording.method != 'btrace':
        return None
    position = recording.replay_position
    return position.number if position else 0


def forget():
    """The server has moved."""
    quiet('maintenance flush register-cache')
    quiet('maintenance flush dcache')


def show(found):
    """Goes to an instruction of a new window."""
    if number():
        quiet('record goto end')
    forget()
    quiet(f'record goto {found}')


class Window:
    """last: the number of its last instruction"""

    last = 0

    def around(self, at, after=AFTER):
        """A new window; returns the number that the instruction has in it."""
        said = ask(f'window:{at:x},{BEFORE:x},{after:x}')
        if not said:
            raise gdb.GdbError('The trace is damaged here, or this is not one '
                               'of a walk.')
        found, self.last = (int(word, 16) for word in said.split(','))
        show(found)
        return found

    def at(self):
        """The number of the instruction where gdb is, as requests have
        it"""
        at = number()
        if at is None:
            quiet('record btrace bts')
        return at or 0

    def leave(self):
        """Stays there without a window; returns if there was one."""
        at = number()
        if at:
            ask(f'stand:{at:x}')
            quiet('record goto end')
            forget()
        return at is not None


window = Window()


def stops():
    """Breakpoints of this thread by their addresses.  A condition is about
    registers or variables, of which a trace knows nothing: these do not
    stop."""
    thread = gdb.selected_thread()
    return {location.address: b for b in gdb.breakpoints()
            if b.enabled and b.type == gdb.BP_BREAKPOINT and not b.condition
            and b.thread in (None, thread and thread.global_num)
            for location in b.locations
            if location.enabled and location.address is not None}


class Way:
    """A way that the server goes; gdb follows at its end."""

    SAME, CALLEE, CALLER, NOWHERE, STOP = range(5)

    def __init__(self):
        self.pc = 0
        self.way = self.SAME
        self.stops = stops()
        ask('stops:' + ','.join(f'{a:x}' for a in sorted(self.stops)))
        self.go(f'from:{window.at():x}')

    def go(self, request):
        said = ask(request)
        if said:
            self.pc, self.way = (int(word, 16) for word in said.split(','))
        else:
            self.way = self.NOWHERE
        return self.way

    def back(self, start=0, end=0, over=True):
        """Within a range of code, one instruction at least"""
        return self.go(f'back:{start:x},{end:x},{over:d}')

    def on(self, start=0, end=0, over=True):
        """The same forwards"""
        return self.go(f'on:{start:x},{end:x},{over:d}')

    def ended(self):
        return self.way in (self.NOWHERE, self.STOP)

    def follow(self):
        found = int(ask('to') or '0', 16)
        if found:
            quiet(f'record goto {found}')
        else:
            window.around(0)
        if self.way == self.STOP:
            met = self.stops[self.pc]
            gdb.write('\n%s %d, ' % ('Temporary breakpoint' if met.temporary
                                     else 'Breakpoint', met.number))
            if met.temporary:
                met.delete()


def line_of(pc):
    """The range of the source line of an instruction, and which line that is;
    None if it has none"""
    found = gdb.find_pc_line(pc)
    return (found.pc, found.last + 1, (found.symtab.filename, found.line)) \
        if found.line else None


def one_back(way, into, start=0, end=0):
    """Into a function only if it has lines; returns if it is in one."""
    if way.back(start, end, not into) == way.CALLEE and not line_of(way.pc):
        # What has called this need not be what called where it led to.
        way.on()
        way.back()
    return way.way == way.CALLEE


def back_by_lines(way, into):
    """To where a source line begins, as gdb does: that of this line, or of
    another one that ran before"""
    line = line_of(way.pc)
    leaves = None
    if not line:
        # To who has called it, which may have lines.
        way.go(f'caller:{NEAR:x}')
    elif way.pc == line[0]:
        leaves = line[2]
        if one_back(way, into):
            leaves = None
    while not way.ended():
        line = line_of(way.pc)
        if not line or (way.pc == line[0] and line[2] != leaves):
            break
        if one_back(way, into, *line[:2]) or way.way == way.CALLER:
            leaves = None


def outermost(pc):
    """The block of the function of an instruction, which others may have been
    inlined into"""
    block = gdb.block_for_pc(pc)
    while block and not block.superblock.is_static:
        block = block.superblock
    return block


def is_entry(pc):
    """Does a function begin here?"""
    block = outermost(pc)
    return block is not None and block.start == pc


def body(entry):
    """Where gdb stops in a function that it steps into, after what the
    compiler has put before the first line: where a breakpoint would be"""
    start = outermost(entry).start
    try:
        b = gdb.Breakpoint(function=outermost(entry).function.linkage_name,
                           internal=True)
    except gdb.error:
        return entry
    # There can be several functions of that name.
    places = [place.address for place in b.locations if place.address and
              (block := outermost(place.address)) and block.start == start]
    b.delete()
    return places[0] if places else entry


def on_by_lines(way, into):
    """To where another source line begins, as gdb does"""
    line = line_of(way.pc)
    if not line:
        way.go('return:0')
        return
    while not way.ended():
        way.on(*line[:2], not into)
        entered = way.way == way.CALLEE
        if entered and not line_of(way.pc):
            way.go('return:0')
            # What was called can have been interrupted before it began.
            entered = not way.ended() and line_of(way.pc) and is_entry(way.pc)
        if entered:
            first = body(way.pc)
            if first != way.pc:
                way.on(way.pc, first)
            return
        if way.ended():
            return
        before, line = line, line_of(way.pc)
        if not line or (way.pc == line[0] and line[2] != before[2]):
            return


def move(command, forward):
    """Go a way; None if there is nothing more, True if nothing has stopped
    it."""
    way = Way()
    if command in ('stepi', 'nexti'):
        (way.on if forward else way.back)(over=command == 'nexti')
    elif command == 'finish':
        way.go('return:0' if forward else 'caller:0')
    else:
        (on_by_lines if forward else back_by_lines)(way, command == 'step')
    way.follow()
    return None if way.way == way.NOWHERE else way.way != way.STOP


def frame():
    """What gdb says of where it is"""
    try:
        return quiet('frame')
    except gdb.error:
        return ''


def symbols():
    """Those of the process that runs here"""
    at = number()
    if not at:
        quiet('sharedlibrary')
    elif ask(f'view:{at:x}') == '1':
        # gdb forgets its window where symbols go.
        window.leave()
        quiet('sharedlibrary')
        window.around(0)


# What a command says if there is nothing more: forwards or not, and if it is
# "finish"
NO_MORE = {
    (True, False): '\nThe trace ends here, or records are missing.\n',
    (True, True): 'The trace does not show that this returns.\n',
    (False, False): '\nNo more reverse-execution history, or who has called '
                    'this is far back;\nthere are reverse-finish and '
                    'reverse-stepi.\n',
    (False, True): 'The trace does not show who has called it.\n',
}


class Move(gdb.Command):
    """Go in the trace, as far as it goes, or to a breakpoint."""

    def __init__(self, name, command, forward):
        self.command = command
        self.forward = forward
        super().__init__(name, gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        finish = self.command == 'finish'
        times = int(gdb.parse_and_eval(argument)) if argument and \
            not finish else 1
        moved = True
        while moved and times > 0:
            moved = move(self.command, self.forward)
            times -= 1
        symbols()
        if moved is None:
            gdb.write(NO_MORE[self.forward, finish])
        # gdb has no number before the frame of a breakpoint.
        at = quiet('frame')
        gdb.write(at if moved or moved is None else
                  at.removeprefix('#0').lstrip())


class ReverseContinue(gdb.Command):
    """Go back to the last breakpoint, wherever in the trace it is."""

    def __init__(self):
        super().__init__('reverse-continue', gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        recorded = window.leave()
        if recorded:
            quiet('record stop')
        quiet('set exec-direction reverse')
        try:
            gdb.write(quiet('continue ' + argument))
        finally:
            quiet('set exec-direction forward')
            if recorded:
                quiet('record btrace bts')


class Leave(gdb.Command):
    """Stand where gdb is, without a window: for commands of the server."""

    def __init__(self):
        super().__init__('backtrail-leave', gdb.COMMAND_OBSCURE)

    def invoke(self, argument, from_tty):
        window.leave()
        tell_thread()


class Files(gdb.Command):
    """Have the symbols of the process whose thread was chosen."""

    def __init__(self):
        super().__init__('backtrail-files', gdb.COMMAND_OBSCURE)

    def invoke(self, argument, from_tty):
        before = frame()
        symbols()
        # gdb has shown it with those of another one.
        if frame() != before:
            gdb.write(frame())


class Ahead(gdb.Command):
    """Have a window around where gdb is, for its own commands."""

    def __init__(self):
        super().__init__('backtrail-ahead', gdb.COMMAND_OBSCURE)

    def invoke(self, argument, from_tty):
        at = window.at()
        if at < BEFORE or window.last - at < AHEAD:
            window.around(at, AHEAD)


def has_front_end():
    """Does a program talk to this gdb?  It waits for stops, which only gdb's
    own commands make."""
    with open('/proc/self/cmdline', 'rb') as f:
        return re.search(rb'\0--?i(nterp\w*)?[=\0]mi', f.read())


def install(front_end):
    Leave()
    Files()
    Ahead()
    if not front_end:
        ReverseContinue()
    for command in 'step', 'next', 'stepi', 'nexti', 'finish':
        for name in command, 'reverse-' + command:
            if front_end:
                gdb.execute(f'define hook-{name}\nbacktrail-ahead\nend')
            else:
                Move(name, command, name == command)


install(has_front_end())
