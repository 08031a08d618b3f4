/*
 * The time of day, off by as many seconds as the file says that LOCKHOUSE_CLOCK names: eight bytes, mapped, so that
 * looking at the clock costs nothing more and sees at once that it was set. The monotonic clock is true.
 *
 * A wait until a time of day takes as long as the program meant it to. Where the clock of a wait is not told, it is known
 * by the time: the monotonic clock counts from when the machine was started.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define A_TIME_OF_DAY 1000000000

static volatile const int64_t *file;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void prepare(void)
{
    const char *path = getenv("LOCKHOUSE_CLOCK");
    int opened = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (opened < 0)
        return;
    void *mapped = mmap(NULL, sizeof *file, PROT_READ, MAP_SHARED, opened, 0);
    close(opened);
    if (mapped != MAP_FAILED)
        file = mapped;
    real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
}

static int64_t off(void)
{
    return file ? *file : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = real_gettime ? real_gettime(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += off();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &time);
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    if (now)
        *now = time.tv_sec;
    return time.tv_sec;
}

static struct timespec truly(const struct timespec *until)
{
    struct timespec time = *until;
    if (time.tv_sec > A_TIME_OF_DAY)
        time.tv_sec -= off();
    return time;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    static __typeof__(&pthread_cond_timedwait) real;
    struct timespec time = truly(until);
    if (!real)
        real = REAL(pthread_cond_timedwait);
    return real(condition, mutex, &time);
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict until)
{
    static __typeof__(&pthread_cond_clockwait) real;
    struct timespec time = truly(until);
    if (!real)
        real = REAL(pthread_cond_clockwait);
    return real(condition, mutex, clock, &time);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until)
{
    static __typeof__(&pthread_mutex_timedlock) real;
    struct timespec time = truly(until);
    if (!real)
        real = REAL(pthread_mutex_timedlock);
    return real(mutex, &time);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until)
{
    static __typeof__(&sem_timedwait) real;
    struct timespec time = truly(until);
    if (!real)
        real = REAL(sem_timedwait);
    return real(semaphore, &time);
}
