/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a capture finds in the memory of a fake guest, and says to its producer
 */

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drain/capture.h"
#include "fake-linux.h"
#include "fake-producer.h"
#include "lib/agent/bytes.h"
#include "lib/agent/sideband.h"
#include "trace-samples.h"
#include "util/clock.h"

struct rig {
    struct fake_producer f;
    struct fake_linux guest;
    struct capture *capture;
    int ram;
    bool requested;             /* MEMORY, again */
};

static void write_ram(struct rig *r, const uint8_t *bytes)
{
    g_assert_cmpint(pwrite(r->ram, bytes, FAKE_SIZE, 0), ==, FAKE_SIZE);
}

/* The next message of this type; those that come now and then are ignored. */
static struct btrail_msg expect(struct rig *r, uint16_t type)
{
    struct btrail_msg msg;

    do {
        struct pollfd pfd = { .fd = r->f.sock, .events = POLLIN };

        g_assert_cmpint(poll(&pfd, 1, 60000), ==, 1);
        g_assert_cmpint(recv(r->f.sock, &msg, sizeof(msg), MSG_WAITALL), ==,
                        sizeof(msg));
        r->requested |= msg.type == BTRAIL_MSG_MEMORY;
        g_assert_true(msg.type == type || msg.type == BTRAIL_MSG_FLUSH ||
                      msg.type == BTRAIL_MSG_MEMORY);
    } while (msg.type != type);
    return msg;
}

static void expect_request(struct rig *r)
{
    if (!r->requested) {
        expect(r, BTRAIL_MSG_MEMORY);
    }
    r->requested = false;
}

static void expect_tasks(struct rig *r, const struct btrail_tasks *want)
{
    struct btrail_tasks tasks;

    g_assert_cmpuint(expect(r, BTRAIL_MSG_TASKS).value, ==, sizeof(tasks));
    g_assert_cmpint(recv(r->f.sock, &tasks, sizeof(tasks), MSG_WAITALL), ==,
                    sizeof(tasks));
    g_assert_cmpmem(&tasks, sizeof(tasks), want, sizeof(*want));
}

static void send_memory_of(struct rig *r, uint32_t reason, uint64_t size)
{
    const struct {
        struct btrail_memory head;
        struct btrail_memory_range range;
    } table = { { .ranges = 1, .files = 1 }, { .size = size } };
    const struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_MEMORY,
        .reason = reason,
        .value = sizeof(table),
    };
    int fds[2] = { memfd_create("table", MFD_CLOEXEC), r->ram };

    g_assert_cmpint(pwrite(fds[0], &table, sizeof(table), 0), ==,
                    sizeof(table));
    fake_send(&r->f, &msg, sizeof(msg), fds, reason ? 0 : 2);
    close(fds[0]);
}

static void send_memory(struct rig *r)
{
    send_memory_of(r, BTRAIL_MEMORY_SHARED, FAKE_SIZE);
}

#define ACCEPTS_TASKS   (BTRAIL_ACCEPTS_TASKS | BTRAIL_ACCEPTS_KERNELS | \
                         BTRAIL_ACCEPTS_WAKES)

static void start(struct rig *r, uint32_t accepts)
{
    struct capture_options options = { .names = true };
    bool hold = accepts & BTRAIL_ACCEPTS_HOLD;

    r->requested = false;
    fake_linux_init(&r->guest, 0);
    r->ram = memfd_create("ram", MFD_CLOEXEC);
    write_ram(r, r->guest.memory);
    fake_init(&r->f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    r->f.header->accepts = accepts;
    options.sock = r->f.agent_sock;
    r->capture = capture_start(&options);
    fake_hello(&r->f);
    g_assert_cmpuint(expect(r, BTRAIL_MSG_READY).value, ==,
                     BTRAIL_READY_MEMORY | BTRAIL_READY_KERNELS |
                     (hold ? BTRAIL_READY_HOLD : 0));
}

static void finish(struct rig *r)
{
    struct capture_result result;

    fake_end(&r->f, BTRAIL_END_STOPPED);
    capture_finish(r->capture, &result);
    g_assert_no_error(result.error);
    fake_clear(&r->f);
    fake_linux_clear(&r->guest);
    close(r->ram);
}

static const struct btrail_tasks none;
static const uint8_t empty[FAKE_SIZE];

static struct btrail_tasks tasks_of(const struct rig *r)
{
    const uint8_t *banner = memmem(r->guest.memory, FAKE_SIZE, FAKE_BANNER,
                                   strlen(FAKE_BANNER));
    struct btrail_tasks tasks = {
        .switch_to = FAKE_SWITCH_TO,
        .set_name = FAKE_SET_NAME,
        .current = FAKE_PCPU_HOT + r->guest.layout.pcpu_current,
        .tid = r->guest.layout.task_pid,
        .pid = r->guest.layout.task_tgid,
        .name = r->guest.layout.task_comm,
        .task_flags = r->guest.layout.task_flags,
        .kernel = 0x200000,
        .mark_physical = (uint64_t)(banner - r->guest.memory) +
                         strlen(FAKE_BANNER) - BTRAIL_TASKS_MARK,
        .number = 1,
        .wake = FAKE_WAKE,
        .waking = { FAKE_WAKE + 0x20, FAKE_WAKE + 0x80 },
        .wake_new = FAKE_WAKE_NEW,
        .waking_new = FAKE_WAKE_NEW + 0x30,
        .state = r->guest.layout.task_state,
        .on_queue = r->guest.layout.task_on_queue,
        .delayed = r->guest.layout.task_delayed,
        .dead = 0x80, .interruptible = 1, .uninterruptible = 2,
    };

    tasks.mark = FAKE_STEXT + tasks.mark_physical;
    memcpy(tasks.mark_bytes, r->guest.memory + tasks.mark_physical,
           BTRAIL_TASKS_MARK);
    return tasks;
}

/* While there is a kernel, the producer knows how to find its tasks. */
static void test_tasks(void)
{
    struct btrail_tasks want;
    struct rig r;

    start(&r, ACCEPTS_TASKS);
    send_memory(&r);
    want = tasks_of(&r);
    expect_tasks(&r, &want);
    write_ram(&r, empty);
    expect_tasks(&r, &none);
    write_ram(&r, r.guest.memory);
    expect_tasks(&r, &want);
    finish(&r);
}

/* The producer's answer to each request is what counts from then on. */
static void test_plugged(void)
{
    struct btrail_tasks want;
    struct rig r;

    start(&r, ACCEPTS_TASKS | BTRAIL_ACCEPTS_MEMORY);
    want = tasks_of(&r);
    send_memory_of(&r, BTRAIL_MEMORY_SHARED, GUEST_PAGE_SIZE);
    expect_tasks(&r, &none);
    expect_request(&r);
    send_memory(&r);
    expect_tasks(&r, &want);
    /* It fails to share what there is: what it has shared is kept. */
    expect_request(&r);
    send_memory_of(&r, BTRAIL_MEMORY_FAILED, 0);
    for (unsigned i = 0; i < 4; i++) {
        expect(&r, BTRAIL_MSG_FLUSH);
    }
    expect_request(&r);
    /* All that was shared is gone. */
    send_memory_of(&r, BTRAIL_MEMORY_PRIVATE, 0);
    expect_tasks(&r, &none);
    finish(&r);
}

/* A producer that does not accept the message does not get it. */
static void test_not_accepted(void)
{
    struct rig r;

    start(&r, ~(BTRAIL_ACCEPTS_TASKS | BTRAIL_ACCEPTS_HOLD |
                BTRAIL_ACCEPTS_MEMORY));
    send_memory(&r);
    /* Until long after the kernel was found */
    for (unsigned i = 0; i < 8; i++) {
        expect(&r, BTRAIL_MSG_FLUSH);
    }
    finish(&r);
}

/* Nothing is traced before the producer knows how to find tasks. */
static void test_hold(void)
{
    struct btrail_tasks want;
    struct rig r;

    start(&r, ACCEPTS_TASKS | BTRAIL_ACCEPTS_HOLD);
    send_memory(&r);
    want = tasks_of(&r);
    expect_tasks(&r, &want);
    g_assert_cmpuint(expect(&r, BTRAIL_MSG_READY).value, ==, 0);
    finish(&r);
}

/* A guest without a kernel is not waited for. */
static void test_hold_without_kernel(void)
{
    struct btrail_tasks want;
    struct rig r;

    start(&r, ACCEPTS_TASKS | BTRAIL_ACCEPTS_HOLD);
    want = tasks_of(&r);
    write_ram(&r, empty);
    send_memory(&r);
    expect_tasks(&r, &none);
    g_assert_cmpuint(expect(&r, BTRAIL_MSG_READY).value, ==, 0);
    /* It boots. */
    write_ram(&r, r.guest.memory);
    expect_tasks(&r, &want);
    finish(&r);
}

/* Nor is a producer for long that does not share the guest's memory. */
static void test_hold_without_memory(void)
{
    struct rig r;

    start(&r, ACCEPTS_TASKS | BTRAIL_ACCEPTS_HOLD);
    g_assert_cmpuint(expect(&r, BTRAIL_MSG_READY).value, ==, 0);
    finish(&r);
}

/*
 * The producer says nothing of kernels, but which page tables make records.
 * Publishes slabs with these until the agent describes tasks.
 */
static void run_until_tasks(struct rig *r, uint64_t cr3, uint64_t *index,
                            const struct btrail_tasks *want)
{
    struct pollfd pfd = { .fd = r->f.sock, .events = POLLIN };
    struct btrail_msg msg = { .type = BTRAIL_MSG_FLUSH };

    for (unsigned i = 0; msg.type == BTRAIL_MSG_FLUSH; i++) {
        struct btrail_event events[] = {
            { .index = *index, .type = BTRAIL_EVENT_TIME,
              .data = { clock_ns(), 0, BTRAIL_NO_ICOUNT } },
            { .index = *index, .type = BTRAIL_EVENT_CR3, .data = { cr3 } },
        };

        g_assert_cmpuint(i, <, 3000);
        fake_wait_free(&r->f, 0);
        fake_publish(&r->f, 0, *index, 10, events, G_N_ELEMENTS(events));
        *index += 10;
        while (poll(&pfd, 1, 10) == 1 && msg.type == BTRAIL_MSG_FLUSH) {
            g_assert_cmpint(recv(r->f.sock, &msg, sizeof(msg), MSG_PEEK), ==,
                            sizeof(msg));
            if (msg.type == BTRAIL_MSG_FLUSH) {
                expect(r, BTRAIL_MSG_FLUSH);
            }
        }
    }
    expect_tasks(r, want);
}

/* A kernel that its page tables show to be gone, and then to be back */
static void test_unsaid(void)
{
    struct btrail_tasks want;
    uint64_t index = 0;
    struct rig r;

    start(&r, ACCEPTS_TASKS);
    send_memory(&r);
    want = tasks_of(&r);
    run_until_tasks(&r, FAKE_ROOT, &index, &want);
    run_until_tasks(&r, GUEST_PAGE_SIZE * (FAKE_PAGES - 1), &index, &none);
    run_until_tasks(&r, FAKE_ROOT, &index, &want);
    /* Those of a nested guest are none of the guest's. */
    for (unsigned i = 0; i < 50; i++) {
        const struct btrail_event events[] = {
            { .index = index, .type = BTRAIL_EVENT_TIME,
              .data = { clock_ns(), 0, BTRAIL_NO_ICOUNT } },
            { .index = index, .type = BTRAIL_EVENT_CR3,
              .data = { BTRAIL_CR3_NESTED | 0x5000 } },
        };

        fake_wait_free(&r.f, 0);
        fake_publish(&r.f, 0, index, 10, events, G_N_ELEMENTS(events));
        index += 10;
        g_usleep(10000);
    }
    for (unsigned i = 0; i < 4; i++) {
        expect(&r, BTRAIL_MSG_FLUSH);
    }
    fake_publish_end(&r.f, 0, index);
    finish(&r);
}

/* Records of a nested guest with these page tables, and those that it has */
static void publish_nested(struct rig *r, uint64_t *index, uint64_t root,
                           uint64_t cr3)
{
    const struct btrail_event events[] = {
        {
            .index = *index, .type = BTRAIL_EVENT_CR3,
            .data = { BTRAIL_CR3_NESTED | cr3 },
        },
        {
            .index = *index, .type = BTRAIL_EVENT_KERNEL,
            .reason = BTRAIL_KERNEL_NESTED, .data = { 0, root },
        },
    };

    fake_wait_free(&r->f, 0);
    fake_publish(&r->f, 0, *index, 10, events, G_N_ELEMENTS(events));
    *index += 10;
}

/*
 * The kernel of a nested guest is described beside that of the guest.  What only
 * pretends to be a nested guest changes nothing, however much there is of it.
 */
static void test_nested(void)
{
    g_autofree uint8_t *bytes = g_malloc(FAKE_NESTED_SIZE);
    struct btrail_tasks want, tasks[2];
    uint64_t index = 0;
    struct rig r;

    start(&r, ACCEPTS_TASKS | BTRAIL_ACCEPTS_NESTED);
    fake_linux_nest(&r.guest, bytes);
    g_assert_cmpint(pwrite(r.ram, bytes, FAKE_NESTED_SIZE, FAKE_MOVED), ==,
                    FAKE_NESTED_SIZE);
    send_memory_of(&r, BTRAIL_MEMORY_SHARED, FAKE_MOVED + FAKE_NESTED_SIZE);
    want = tasks_of(&r);
    expect_tasks(&r, &want);
    /* Nested guests without nested paging, and without page tables */
    publish_nested(&r, &index, 0, FAKE_ROOT);
    publish_nested(&r, &index, FAKE_NESTED_ROOT, 0);
    publish_nested(&r, &index, FAKE_NESTED_ROOT, FAKE_ROOT);
    g_assert_cmpuint(expect(&r, BTRAIL_MSG_TASKS).value, ==, sizeof(tasks));
    g_assert_cmpint(recv(r.f.sock, tasks, sizeof(tasks), MSG_WAITALL), ==,
                    sizeof(tasks));
    g_assert_cmpmem(&tasks[0], sizeof(want), &want, sizeof(want));
    want.number = 2;
    g_assert_cmpmem(&tasks[1], sizeof(want), &want, sizeof(want));
    for (unsigned i = 0; i < 40; i++) {
        publish_nested(&r, &index, (i + 1) * 0x1000, i % 3 ? 0x7000 :
                       FAKE_ROOT);
        g_usleep(50000);
        publish_nested(&r, &index, FAKE_NESTED_ROOT, FAKE_ROOT);
    }
    /* The guest's memory is another's. */
    write_ram(&r, empty);
    g_assert_cmpuint(expect(&r, BTRAIL_MSG_TASKS).value, ==, sizeof(tasks));
    g_assert_cmpint(recv(r.f.sock, tasks, sizeof(tasks), MSG_WAITALL), ==,
                    sizeof(tasks));
    g_assert_cmpmem(&tasks[0], sizeof(none), &none, sizeof(none));
    g_assert_cmpmem(&tasks[1], sizeof(want), &want, sizeof(want));
    fake_wait_free(&r.f, 0);
    fake_publish_end(&r.f, 0, index);
    finish(&r);
}

static struct session *add_session(struct rig *r, uint32_t privilege,
                                   char **path)
{
    struct session_settings options = {
        .filter.privilege = privilege, .metadata = json_object_new(),
    };
    struct btrail_store_options store = { 0 };
    struct session *s;

    store.path = *path = sample_path();
    g_assert_cmpint(btrail_store_open(&options.store, &store), ==, 0);
    s = session_new(&options, NULL);
    g_assert_nonnull(s);
    json_object_unref(options.metadata);
    capture_add(r->capture, s);
    return s;
}

/* Ends it, and returns its pieces that say when something was so last. */
static char *finish_session(struct session *s, char *path)
{
    GString *text = g_string_new(NULL);
    struct pollfd pfd = {
        .fd = session_done_fd(s), .events = POLLIN,
    };
    struct session_result result;
    struct btrail_sideband_info info;
    struct btrail_trace *t;
    void *data;

    g_assert_cmpint(poll(&pfd, 1, 60000), ==, 1);
    session_finish(s, &result);
    g_assert_no_error(result.error);
    g_free(result.no_names);
    g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
    for (unsigned i = 0; !btrail_trace_sideband(t, i, &info, &data); i++) {
        if (info.kind == BTRAIL_SIDEBAND_HELD) {
            g_string_append_printf(text, "%u held ", info.kernel);
        } else if (info.kind == BTRAIL_SIDEBAND_ENDED) {
            g_assert_cmpuint(info.size, ==, BTRAIL_SIDEBAND_ENDED_SIZE);
            g_assert_cmpuint(btrail_get64(data), >, info.time);
            g_string_append_printf(text, "%u ended ", info.kernel);
        }
        free(data);
    }
    btrail_trace_close(t);
    sample_remove(path);
    return g_string_free(text, FALSE);
}

/*
 * A session that leaves has what was known by then; one that stays, and sees
 * user mode alone, learns that the kernel has ended.
 */
static void test_leave(void)
{
    g_autofree char *got = NULL, *other = NULL;
    struct session *all, *user;
    char *all_path, *user_path;
    struct btrail_tasks want;
    uint64_t index = 0, now;
    struct rig r;

    start(&r, ACCEPTS_TASKS);
    all = add_session(&r, BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL,
                      &all_path);
    user = add_session(&r, BTRAIL_PRIVILEGE_USER, &user_path);
    send_memory(&r);
    want = tasks_of(&r);
    run_until_tasks(&r, FAKE_ROOT, &index, &want);
    /* Something else runs, for too short a time to be sure of it. */
    now = clock_ns();
    for (unsigned i = 0; i < 50; i++) {
        const struct btrail_event events[] = {
            { .index = index, .type = BTRAIL_EVENT_TIME,
              .data = { now + i * 1000000, 0, BTRAIL_NO_ICOUNT } },
            { .index = index, .type = BTRAIL_EVENT_CR3,
              .data = { GUEST_PAGE_SIZE * (FAKE_PAGES - 1) } },
        };

        fake_wait_free(&r.f, 0);
        fake_publish(&r.f, 0, index, 10, events, G_N_ELEMENTS(events));
        index += 10;
        g_usleep(2000);
    }
    capture_remove(r.capture, all);
    got = finish_session(all, all_path);
    g_assert_cmpstr(got, ==, "1 held 1 ended ");
    run_until_tasks(&r, GUEST_PAGE_SIZE * (FAKE_PAGES - 1), &index, &none);
    fake_publish_end(&r.f, 0, index);
    finish(&r);
    other = finish_session(user, user_path);
    g_assert_cmpstr(other, ==, "1 ended ");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/capture-names/tasks", test_tasks);
    g_test_add_func("/capture-names/plugged", test_plugged);
    g_test_add_func("/capture-names/not-accepted", test_not_accepted);
    g_test_add_func("/capture-names/nested", test_nested);
    g_test_add_func("/capture-names/hold", test_hold);
    g_test_add_func("/capture-names/hold/without-kernel",
                    test_hold_without_kernel);
    g_test_add_func("/capture-names/hold/without-memory",
                    test_hold_without_memory);
    g_test_add_func("/capture-names/unsaid", test_unsaid);
    g_test_add_func("/capture-names/leave", test_leave);
    return g_test_run();
}
