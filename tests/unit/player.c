/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A player goes where it is told to, or says where it is, whatever was done
 * before: with a QEMU that is this program
 *
 * Its guest executes END instructions, and has no state besides: it is as it
 * was recorded, or it is not, since it was diverted.  It ends where it is told
 * to do what QEMU would not do.
 */

#include <glib/gstdio.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "replay/player.h"
#include "scratch.h"
#include "util/json.h"

#define END     1000
#define VCPUS   2
/* Instructions between checkpoints */
#define APART   64

/* How QEMU differs from one with which all is well, in its environment */
#define BEGIN   "FAKE_BEGIN"    /* it begins here */
#define NO_ROOM "FAKE_NO_ROOM"  /* no checkpoint fits */
#define SLOW    "FAKE_SLOW"     /* an instruction takes so many ms */
#define HASTE   "FAKE_HASTE"    /* but only until it was stopped */
#define DIVERGE "FAKE_DIVERGE"  /* it ends here */
#define LOADING "FAKE_LOADING"  /* so many answers say that it loads its base */

/*
 * QEMU's side
 */

/**
 * struct fake
 * @to:       where it stops, as long as nobody says otherwise
 * @reached:  how far it has ever come, with checkpoints on the way
 * @over:     the log has ended, and QEMU executes nothing more of it
 * @dirty:    the guest is not as it was recorded
 * @live:     what it does is its own
 * @passed:   name and contents of the descriptor that it got last
 */
static struct fake {
    int sock, fd;
    GString *in;
    char *argv;
    uint64_t begin, icount, to, reached, diverge, loading;
    int slow;
    bool running, over, diverted, dirty, live, room;
    char *passed;
} fake;

static void G_GNUC_NORETURN wrong(const char *what)
{
    fprintf(stderr, "wrong: %s\n", what);
    exit(1);
}

static void say(JsonObject *o)
{
    g_autofree char *text = btrail_json_text(o, FALSE);
    g_autofree char *line = g_strconcat(text, "\n", NULL);
    size_t size = strlen(line);

    if (send(fake.sock, line, size, MSG_NOSIGNAL) != (ssize_t)size) {
        exit(0);
    }
    json_object_unref(o);
}

static void event(const char *name)
{
    say(btrail_json_new("s:event", name, NULL));
}

static void halt(void)
{
    fake.running = false;
    event("STOP");
}

/* One step of a guest that runs */
static void execute(void)
{
    if (fake.live) {
        return;
    }
    if (fake.icount == fake.diverge) {
        fprintf(stderr, "more\nReplay: Missing event (insn total %" PRIu64
                "/12 left, event 3)\n", fake.icount);
        abort();
    }
    if (fake.icount == fake.to) {
        fake.to = UINT64_MAX;
        halt();
    } else if (fake.icount == END) {
        fake.over = true;
        event("SHUTDOWN");
        halt();
    } else {
        fake.icount++;
        fake.reached = MAX(fake.reached, fake.icount);
    }
}

/* The last checkpoint up to an instruction; false if there is none */
static bool checkpoint(uint64_t icount, uint64_t *at)
{
    icount = MIN(icount, fake.reached);
    *at = icount - (icount - fake.begin) % APART;
    return fake.room;
}

static void run(void)
{
    fake.running = true;
    event("RESUME");
}

static const char *seek(uint64_t icount)
{
    uint64_t at;

    if (icount == fake.icount && !fake.diverted) {
        wrong("it is there already");
    }
    if (icount > fake.icount && !fake.diverted) {
        if (fake.over) {
            wrong("the log has ended");
        }
    } else if (!checkpoint(icount, &at)) {
        return "no checkpoint is before that";
    } else {
        fake.icount = at;
        fake.over = fake.diverted = fake.dirty = false;
    }
    fake.to = icount;
    run();
    return NULL;
}

static const char *divert(uint64_t vcpu)
{
    uint64_t at;

    if (vcpu >= VCPUS) {
        return "there is no such CPU";
    }
    if (!checkpoint(fake.icount, &at)) {
        return "there is no checkpoint to come back by";
    }
    fake.over = false;
    fake.diverted = true;
    return NULL;
}

static JsonObject *checkpoints(void)
{
    JsonArray *icounts = json_array_new();

    for (uint64_t i = fake.begin; fake.room && i <= fake.reached; i += APART) {
        json_array_add_int_element(icounts, i);
    }
    return btrail_json_new("a:icounts", icounts, NULL);
}

/* A line of the human monitor, for the test */
static const char *human(const char *line)
{
    if (!strcmp(line, "argv")) {
        return fake.argv;
    } else if (!strcmp(line, "state")) {
        return fake.running ? "runs" : fake.dirty ? "dirty" : "clean";
    } else if (!strcmp(line, "execute")) {
        /* A function of the guest was called. */
        fake.dirty = fake.diverted;
        return "";
    } else if (!strcmp(line, "passed")) {
        return fake.passed;
    } else if (!strcmp(line, "power off")) {
        event("SHUTDOWN");
        return "";
    }
    wrong(line);
}

static const char *take_descriptor(const char *name)
{
    char text[64] = "";

    if (fake.fd < 0 || pread(fake.fd, text, sizeof(text) - 1, 0) < 0) {
        return "no descriptor came with it";
    }
    close(fake.fd);
    fake.fd = -1;
    g_free(fake.passed);
    fake.passed = g_strdup_printf("%s: %s", name, text);
    return NULL;
}

/* Does what a command says.  Returns why it does not; @result is taken. */
static const char *obey(const char *command, JsonObject *arguments,
                        JsonObject **result)
{
    bool moves = g_strv_contains((const char *const[]) {
        "replay-seek", "cont", "replay-divert", "replay-go-live", NULL,
    }, command);

    if (moves && fake.running) {
        wrong("it runs");
    }
    if (!strcmp(command, "query-replay")) {
        *result = btrail_json_new("U:icount", fake.icount, NULL);
    } else if (!strcmp(command, "query-status")) {
        *result = btrail_json_new("s:status", fake.loading ? "inmigrate" :
                                  "paused", NULL);
        fake.loading -= fake.loading > 0;
    } else if (!strcmp(command, "query-replay-checkpoints")) {
        *result = checkpoints();
    } else if (!strcmp(command, "replay-seek")) {
        return seek(btrail_json_int(arguments, "icount", -1));
    } else if (!strcmp(command, "replay-delete-break")) {
        if (fake.to == UINT64_MAX) {
            return "there is none";
        }
        fake.to = UINT64_MAX;
    } else if (!strcmp(command, "stop")) {
        if (fake.running) {
            halt();
        }
        fake.slow = g_getenv(HASTE) ? 0 : fake.slow;
    } else if (!strcmp(command, "cont")) {
        if (fake.over) {
            return "resetting the machine is required";
        }
        run();
    } else if (!strcmp(command, "replay-divert")) {
        return divert(btrail_json_int(arguments, "cpu-index", -1));
    } else if (!strcmp(command, "object-del")) {
        fake.room = false;
    } else if (!strcmp(command, "replay-go-live")) {
        fake.live = true;
    } else if (!strcmp(command, "getfd")) {
        return take_descriptor(btrail_json_string(arguments, "fdname"));
    } else if (strcmp(command, "qmp_capabilities")) {
        wrong(command);
    }
    return NULL;
}

static void on_line(const char *line)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(line);
    JsonObject *o = json_node_get_object(node);
    JsonObject *arguments = btrail_json_object(o, "arguments");
    const char *command = btrail_json_string(o, "execute");
    JsonObject *result = NULL;
    JsonObject *answer = btrail_json_new("U:id", btrail_json_int(o, "id", 0),
                                         NULL);

    if (!strcmp(command, "human-monitor-command")) {
        btrail_json_add(answer, "s:return", human(
            btrail_json_string(arguments, "command-line")), NULL);
    } else {
        const char *why = obey(command, arguments, &result);

        if (why) {
            btrail_json_add(answer, "o:error", btrail_json_new(
                "s:class", "GenericError", "s:desc", why, NULL), NULL);
        } else {
            btrail_json_add(answer, "o:return", result ?: json_object_new(),
                            NULL);
        }
    }
    say(answer);
}

static void read_lines(void)
{
    char bytes[4096];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = { bytes, sizeof(bytes) };
    struct msghdr mh = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    ssize_t n = recvmsg(fake.sock, &mh, 0);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&mh) : NULL;
    char *end;

    if (n <= 0) {
        exit(0);
    }
    if (c) {
        memcpy(&fake.fd, CMSG_DATA(c), sizeof(fake.fd));
    }
    g_string_append_len(fake.in, bytes, n);
    while ((end = strchr(fake.in->str, '\n'))) {
        *end = 0;
        on_line(fake.in->str);
        g_string_erase(fake.in, 0, end + 1 - fake.in->str);
    }
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = g_getenv(name);

    return text ? g_ascii_strtoull(text, NULL, 10) : otherwise;
}

static int G_GNUC_NORETURN be_qemu(int sock, char **argv)
{
    fake = (struct fake) {
        .sock = sock, .fd = -1, .in = g_string_new(NULL),
        .argv = g_strjoinv(" ", argv + 1), .begin = number(BEGIN, 0),
        .diverge = number(DIVERGE, UINT64_MAX), .to = UINT64_MAX,
        .loading = number(LOADING, 0), .slow = number(SLOW, 0),
        .passed = g_strdup(""),
    };
    fake.icount = fake.reached = fake.begin;
    fake.room = strstr(fake.argv, "replay-checkpoints,") && !g_getenv(NO_ROOM);
    say(btrail_json_new("o:QMP", json_object_new(), NULL));
    for (;;) {
        struct pollfd p = { fake.sock, POLLIN };

        if (poll(&p, 1, fake.running && !fake.live ? fake.slow : -1) > 0) {
            read_lines();
        } else {
            execute();
        }
    }
}

/*
 * The test's side
 */

static const char *program;

/* A recording, and a player of it */
struct scene {
    char *folder;
    struct recording *r;
    struct player *p;
};

static void set(const char *name, uint64_t value)
{
    g_autofree char *text = g_strdup_printf("%" PRIu64, value);

    g_setenv(name, text, TRUE);
}

static void set_up(struct scene *s)
{
    const char *const arguments[] = { "-machine", "pc", NULL };

    s->folder = scratch_new();
    s->r = recording_new(s->folder);
    s->r->arguments = g_strdupv((char **)arguments);
    s->r->icount = g_strdup("shift=1,sleep=off");
    s->r->qemu = g_strdup("/the/qemu");
    s->r->qemu_sha256 = recording_hash(program, NULL, NULL);
    s->r->begin.icount = number(BEGIN, 0);
    s->r->instructions = END;
    s->p = NULL;
}

/* NULL gets the usual options. */
static void start(struct scene *s, const struct player_options *options)
{
    struct player_options o = { .checkpoints = PLAYER_CHECKPOINTS };
    g_autoptr(GError) error = NULL;

    o = options ? *options : o;
    o.program = program;
    o.recording = s->r;
    o.cancel_fd = -1;
    s->p = player_start(&o, &error);
    g_assert_no_error(error);
    g_assert_nonnull(s->p);
}

static void tear_down(struct scene *s)
{
    player_free(s->p);
    recording_free(s->r);
    scratch_remove(s->folder);
    g_unsetenv(BEGIN);
    g_unsetenv(NO_ROOM);
    g_unsetenv(SLOW);
    g_unsetenv(HASTE);
    g_unsetenv(DIVERGE);
    g_unsetenv(LOADING);
}

static char *human_of(struct player *p, const char *line)
{
    char *text = player_hmp(p, line, NULL);

    g_assert_nonnull(text);
    return text;
}

static void is_human(struct player *p, const char *line, const char *text)
{
    g_autofree char *got = human_of(p, line);

    g_assert_cmpstr(got, ==, text);
}

/* Where the guest is, which is as it was recorded, or not */
static void is_at(struct player *p, uint64_t icount, bool dirty)
{
    uint64_t at;

    g_assert_true(player_icount(p, &at, NULL));
    g_assert_cmpuint(at, ==, icount);
    is_human(p, "state", dirty ? "dirty" : "clean");
}

static void fails(struct player *p, uint64_t icount, int code,
                  const char *text)
{
    g_autoptr(GError) error = NULL;

    g_assert_false(player_goto(p, icount, &error));
    g_assert_error(error, AGENT_ERROR, code);
    if (!strstr(error->message, text)) {
        g_error("'%s' has no '%s'", error->message, text);
    }
}

static void goes(struct player *p, uint64_t icount)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(player_goto(p, icount, &error));
    g_assert_no_error(error);
    is_at(p, icount, false);
}

static uint64_t any_place(uint64_t at)
{
    switch (g_test_rand_int_range(0, 8)) {
    case 0:
        return END;
    case 1:
        return END + g_test_rand_int_range(1, 5);
    case 2:
        return g_test_rand_bit() ? UINT64_MAX : (uint64_t)INT64_MAX + 1;
    case 3:
        return g_test_rand_int_range(0, 3) * APART;
    case 4:
        return at;
    default:
        return g_test_rand_int_range(0, END);
    }
}

/* Calls a function of the guest there, or is refused. */
static void call_function(struct player *p, uint64_t at, bool *dirty)
{
    unsigned vcpu = g_test_rand_int_range(0, VCPUS + 1);

    g_assert_cmpint(player_divert(p, vcpu, NULL), ==, vcpu < VCPUS);
    if (vcpu < VCPUS) {
        g_free(human_of(p, "execute"));
        *dirty = true;
    }
    is_at(p, at, *dirty);
}

/* Does anything, and knows where the guest must be then. */
static void test_anything(void)
{
    const uint64_t begin = g_test_rand_int_range(0, 200);
    uint64_t at = begin;
    bool dirty = false;
    struct scene s;

    set(BEGIN, begin);
    set_up(&s);
    start(&s, NULL);
    for (unsigned i = 0; i < 150; i++) {
        uint64_t to = any_place(at);

        switch (g_test_rand_int_range(0, 6)) {
        case 0:
            call_function(s.p, at, &dirty);
            break;
        case 1:
            if (!dirty) {
                g_assert_true(player_finish(s.p, NULL));
                at = END;
            }
            break;
        default:
            if (to < begin) {
                fails(s.p, to, AGENT_ERROR_PROTOCOL, "was not kept");
            } else if (to > INT64_MAX) {
                fails(s.p, to, AGENT_ERROR_PROTOCOL, "ends at instruction");
            } else if (to > END) {
                fails(s.p, to, AGENT_ERROR_PROTOCOL, "ends at instruction");
                at = END;
                dirty = false;
            } else {
                goes(s.p, to);
                at = to;
                dirty = false;
            }
        }
        is_at(s.p, at, dirty);
    }
    tear_down(&s);
}

/* Without checkpoints, there is no way back, and all else is as it was. */
static void test_forward(void)
{
    const struct player_options none = { .checkpoints = 0 };
    struct scene s;

    for (unsigned room = 0; room < 2; room++) {
        const char *text = room ? "this replay only goes forward" :
                           "no checkpoint of the guest's memory fits into 1024";

        if (!room) {
            set(NO_ROOM, 1);
        }
        set_up(&s);
        start(&s, room ? &none : NULL);
        goes(s.p, 300);
        fails(s.p, 299, room ? AGENT_ERROR_PROTOCOL : AGENT_ERROR_COMMAND,
              text);
        is_at(s.p, 300, false);
        goes(s.p, 300);
        goes(s.p, 301);
        g_assert_false(player_divert(s.p, 0, NULL));
        goes(s.p, 301);
        g_assert_true(player_finish(s.p, NULL));
        fails(s.p, 5, room ? AGENT_ERROR_PROTOCOL : AGENT_ERROR_COMMAND, text);
        /* It is still at the end. */
        g_assert_true(player_finish(s.p, NULL));
        fails(s.p, END + 1, AGENT_ERROR_PROTOCOL, "ends at instruction 1000");
        is_at(s.p, END, false);
        goes(s.p, END);
        tear_down(&s);
    }
}

static bool go_on(void *opaque)
{
    int *left = opaque;

    return --*left > 0;
}

static uint64_t progressed;

static void on_progress(uint64_t icount, void *opaque)
{
    progressed = icount;
}

/* A way that is interrupted ends where the guest is. */
static void test_interrupted(void)
{
    struct player_options o = {
        .checkpoints = PLAYER_CHECKPOINTS, .progress = on_progress,
    };
    struct scene s;
    uint64_t at, later;
    int left = 2;

    set(SLOW, 10);
    set_up(&s);
    start(&s, &o);
    player_set_go_on(s.p, go_on, &left);
    fails(s.p, 900, AGENT_ERROR_CANCELLED, "interrupted");
    g_assert_cmpint(left, ==, 0);
    g_assert_true(player_icount(s.p, &at, NULL));
    g_assert_cmpuint(at, >, 0);
    g_assert_cmpuint(at, <, 900);
    g_usleep(50000);
    is_at(s.p, at, false);
    g_assert_cmpuint(progressed, ==, 0);
    /* It does not go to where it was told to before. */
    player_set_go_on(s.p, NULL, NULL);
    goes(s.p, at + 3);
    left = 30;
    player_set_go_on(s.p, go_on, &left);
    fails(s.p, 900, AGENT_ERROR_CANCELLED, "interrupted");
    g_assert_true(player_icount(s.p, &later, NULL));
    g_assert_cmpuint(progressed, >, at + 3);
    g_assert_cmpuint(progressed, <=, later);
    player_set_go_on(s.p, NULL, NULL);
    goes(s.p, 2);
    left = 2;
    player_set_go_on(s.p, go_on, &left);
    fails(s.p, 900, AGENT_ERROR_CANCELLED, "interrupted");
    player_set_go_on(s.p, NULL, NULL);
    player_free(s.p);
    /* The same with a QEMU that is quick from then on, up to the end */
    set(HASTE, 1);
    start(&s, NULL);
    left = 2;
    player_set_go_on(s.p, go_on, &left);
    fails(s.p, 900, AGENT_ERROR_CANCELLED, "interrupted");
    player_set_go_on(s.p, NULL, NULL);
    g_assert_true(player_finish(s.p, NULL));
    is_at(s.p, END, false);
    tear_down(&s);
}

/* QEMU ends, for it cannot do what the log has. */
static void test_diverged(void)
{
    struct scene s;
    uint64_t at;

    set(DIVERGE, 321);
    set_up(&s);
    start(&s, NULL);
    goes(s.p, 320);
    g_assert_false(player_diverged(s.p, &at));
    fails(s.p, 400, AGENT_ERROR_CLOSED, "signal 6");
    g_assert_true(player_diverged(s.p, &at));
    g_assert_cmpuint(at, ==, 321);
    tear_down(&s);
}

/* What is not QEMU as it was recorded with is not run, unless that is meant. */
static void test_program(void)
{
    struct player_options o = { .cancel_fd = -1 };
    g_autoptr(GError) error = NULL;
    struct scene s;

    set_up(&s);
    o.recording = s.r;
    g_assert_null(player_start(&o, &error));
    g_assert_nonnull(strstr(error->message, "what a recording names is not "
                            "run"));
    g_clear_error(&error);
    s.r->qemu_sha256[0] = s.r->qemu_sha256[0] == '0' ? '1' : '0';
    o.program = program;
    g_assert_null(player_start(&o, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    g_assert_nonnull(strstr(error->message, "by another QEMU"));
    g_clear_error(&error);
    o.any_qemu = true;
    start(&s, &o);
    goes(s.p, 1);
    g_clear_pointer(&s.p, player_free);
    /* Arguments that it must not have */
    g_free(s.r->arguments[1]);
    s.r->arguments[1] = g_strdup("pc,accel=kvm");
    g_assert_null(player_start(&o, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    tear_down(&s);
}

static void has_arguments(struct scene *s, const struct player_options *o,
                          const char *text)
{
    g_autofree char *argv = NULL;

    start(s, o);
    argv = human_of(s->p, "argv");
    if (!g_str_has_prefix(argv, text)) {
        g_error("'%s' does not begin with '%s'", argv, text);
    }
    g_clear_pointer(&s->p, player_free);
}

#define COMMON  "-S -no-shutdown -qmp unix:qmp,server=on,wait=off " \
                "-gdb unix:gdb,server=on,wait=off "
#define LOG     "-icount shift=1,sleep=off,rr=replay,rrfile=recording/" \
                RECORDING_LOG " "

static void test_arguments(void)
{
    struct player_options o = { .trace = false };
    struct scene s;

    set_up(&s);
    has_arguments(&s, &o, "-machine pc " LOG COMMON "-chardev");
    o.trace = true;
    has_arguments(&s, &o, "-machine pc " LOG COMMON "-device branch-trace "
                  "-chardev");
    o.trace = false;
    o.checkpoints = 77;
    has_arguments(&s, &o, "-machine pc " LOG COMMON "-object replay-checkpoints"
                  ",id=checkpoints,interval-ms=20,memory=77 -chardev");
    o.interval_ms = 5;
    has_arguments(&s, &o, "-machine pc " LOG COMMON "-object replay-checkpoints"
                  ",id=checkpoints,interval-ms=5,memory=77 -chardev");
    /* None twice */
    g_free(s.r->arguments[0]);
    g_free(s.r->arguments[1]);
    s.r->arguments[0] = g_strdup("-device");
    s.r->arguments[1] = g_strdup("branch-trace");
    o = (struct player_options) { .trace = true };
    has_arguments(&s, &o, "-device branch-trace " LOG COMMON "-chardev");
    tear_down(&s);
}

/* It has begun once its base is loaded. */
static void test_base(void)
{
    g_autoptr(JsonNode) status = NULL;
    struct scene s;

    set(LOADING, 3);
    set(BEGIN, 70);
    set_up(&s);
    s.r->base = g_strdup(RECORDING_BASE);
    recording_add_file(s.r, RECORDING_BASE, NULL, 4096, "");
    has_arguments(&s, NULL, "-machine pc " LOG "-incoming file:recording/"
                  RECORDING_BASE " " COMMON);
    start(&s, NULL);
    status = player_execute(s.p, "query-status", NULL, -1, 1000, NULL);
    g_assert_cmpstr(btrail_json_string(json_node_get_object(status), "status"),
                    ==, "paused");
    is_at(s.p, 70, false);
    goes(s.p, 75);
    goes(s.p, 70);
    fails(s.p, 69, AGENT_ERROR_PROTOCOL, "before instruction 70 was not kept");
    tear_down(&s);
}

/* A guest that leaves the replay takes no checkpoints any more, and ends. */
static void test_live(void)
{
    const struct player_options none = { .checkpoints = 0 };
    struct scene s;

    for (unsigned i = 0; i < 2; i++) {
        set_up(&s);
        start(&s, i ? &none : NULL);
        goes(s.p, 500);
        g_assert_true(player_go_live(s.p, NULL));
        g_assert_true(player_run(s.p, NULL));
        g_free(human_of(s.p, "power off"));
        g_assert_true(player_wait_end(s.p, NULL));
        tear_down(&s);
    }
}

static void test_pass(void)
{
    g_autofree char *path = NULL;
    struct scene s;
    FILE *file;

    set_up(&s);
    path = g_build_filename(s.folder, "passed", NULL);
    g_assert_true(g_file_set_contents(path, "hello", 5, NULL));
    file = g_fopen(path, "r");
    start(&s, NULL);
    g_assert_true(player_pass(s.p, "name", fileno(file), NULL));
    is_human(s.p, "passed", "name: hello");
    fclose(file);
    tear_down(&s);
}

/* Nothing is left of it. */
static void test_folder(void)
{
    g_autofree char *folder = NULL;
    struct scene s;

    set_up(&s);
    start(&s, NULL);
    folder = g_path_get_dirname(player_gdb_socket(s.p));
    g_assert_true(g_file_test(folder, G_FILE_TEST_IS_DIR));
    tear_down(&s);
    g_assert_false(g_file_test(folder, G_FILE_TEST_EXISTS));
}

int main(int argc, char **argv)
{
    const char *prefix = "socket,id=rr-monitor,fd=";

    for (int i = 1; i < argc; i++) {
        if (g_str_has_prefix(argv[i], prefix)) {
            return be_qemu(atoi(argv[i] + strlen(prefix)), argv);
        }
    }
    g_test_init(&argc, &argv, NULL);
    program = argv[0];
    g_test_add_func("/player/anything", test_anything);
    g_test_add_func("/player/forward", test_forward);
    g_test_add_func("/player/interrupted", test_interrupted);
    g_test_add_func("/player/diverged", test_diverged);
    g_test_add_func("/player/program", test_program);
    g_test_add_func("/player/arguments", test_arguments);
    g_test_add_func("/player/base", test_base);
    g_test_add_func("/player/live", test_live);
    g_test_add_func("/player/pass", test_pass);
    g_test_add_func("/player/folder", test_folder);
    return g_test_run();
}
