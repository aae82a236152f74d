CREATE TABLE runs (
	number INTEGER PRIMARY KEY,
	id     TEXT NOT NULL UNIQUE,
	began  TEXT NOT NULL,          -- as timeLayout, so that it sorts
	header TEXT NOT NULL,          -- JSON, as in docs/format.md
	ended  TEXT                    -- JSON of the end; NULL while incomplete
, sum INTEGER, ended_sum INTEGER) STRICT;
INSERT INTO runs VALUES(1,'a','2026-11-20T09:30:00.123456789Z','{"id":"a","tool":"test","began":"2026-11-20T09:30:00.123456789Z","plan":{"name":"example","workload":"lifecycle","cells":[{"name":"runc","baseline":true,"engine":"runc","spec":{},"params":{"size":"1"}},{"name":"crun","engine":"crun","spec":{"limits":{"cpus":0.5}}}],"seed":"18446744073709551615","warmup":0,"min_blocks":1,"max_blocks":3,"trial_limit_ns":0,"operation_limit_ns":0,"washout_limit_ns":0},"schedule":[[0,1],[1,0],[0,1]],"metrics":[{"name":"total","title":"","unit":"s","better":"lower","role":"primary","scale":"ratio","doc":""},{"name":"faults","title":"","unit":"1","better":"neither","role":"counter","scale":"difference","doc":""}],"engines":[{"name":"runc","driver":"oci","version":"","facts":[{"key":"cgroup","value":"v2"}]}],"host":{"hostname":"here","machine_id":"","boot_id":"","os":"","kernel":"","arch":"","cpu":"","cpus":0,"memory_bytes":1099511627776,"cgroup":"","privileged":false},"imported":true}','{"time":"2026-11-20T10:30:00.123456789Z","reason":"blocks","overhead":{"null_operation_ns":0,"cpu_ns":1,"wall_ns":0,"max_rss_bytes":0}}',NULL,NULL);
INSERT INTO runs VALUES(2,'b','2026-11-20T09:30:00.123456789Z','{"id":"b","tool":"test","began":"2026-11-20T09:30:00.123456789Z","plan":{"name":"example","workload":"lifecycle","cells":[{"name":"runc","baseline":true,"engine":"runc","spec":{},"params":{"size":"1"}},{"name":"crun","engine":"crun","spec":{"limits":{"cpus":0.5}}}],"seed":"18446744073709551615","warmup":0,"min_blocks":1,"max_blocks":3,"trial_limit_ns":0,"operation_limit_ns":0,"washout_limit_ns":0},"schedule":[[0,1],[1,0],[0,1]],"metrics":[{"name":"total","title":"","unit":"s","better":"lower","role":"primary","scale":"ratio","doc":""},{"name":"faults","title":"","unit":"1","better":"neither","role":"counter","scale":"difference","doc":""}],"engines":[{"name":"runc","driver":"oci","version":"","facts":[{"key":"cgroup","value":"v2"}]}],"host":{"hostname":"here","machine_id":"","boot_id":"","os":"","kernel":"","arch":"","cpu":"","cpus":0,"memory_bytes":1099511627776,"cgroup":"","privileged":false},"imported":true}',NULL,NULL,NULL);
INSERT INTO runs VALUES(3,'c','2026-11-20T09:30:00.123456789Z','{"id":"c","tool":"test","began":"2026-11-20T09:30:00.123456789Z","plan":{"name":"example","workload":"lifecycle","cells":[{"name":"runc","baseline":true,"engine":"runc","spec":{},"params":{"size":"1"}},{"name":"crun","engine":"crun","spec":{"limits":{"cpus":0.5}}}],"seed":"18446744073709551615","warmup":0,"min_blocks":1,"max_blocks":5,"trial_limit_ns":0,"operation_limit_ns":0,"washout_limit_ns":0},"schedule":[[0,1],[1,0],[0,1],[1,0]],"metrics":[{"name":"total","title":"","unit":"s","better":"lower","role":"primary","scale":"ratio","doc":""},{"name":"faults","title":"","unit":"1","better":"neither","role":"counter","scale":"difference","doc":""}],"engines":[{"name":"runc","driver":"oci","version":"","facts":[{"key":"cgroup","value":"v2"}]}],"host":{"hostname":"here","machine_id":"","boot_id":"","os":"","kernel":"","arch":"","cpu":"","cpus":0,"memory_bytes":1099511627776,"cgroup":"","privileged":false},"imported":true}','{"time":"2026-11-20T10:30:00.123456789Z","reason":"blocks","overhead":{"null_operation_ns":0,"cpu_ns":1,"wall_ns":0,"max_rss_bytes":0}}',1852801249,3100535093);
CREATE TABLE applied (
	number INTEGER PRIMARY KEY,
	json   TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO applied VALUES(1,'{"runtime":"runc","network":"none"}');
INSERT INTO applied VALUES(2,'{"runtime":"runc","network":"none","limits":{"pids":1}}');
CREATE TABLE samples (
	run       INTEGER NOT NULL REFERENCES runs,
	seq       INTEGER NOT NULL,
	block     INTEGER NOT NULL,
	cell      INTEGER NOT NULL,
	began     TEXT,                -- as timeLayout; NULL where the trial never began
	elapsed   INTEGER NOT NULL,    -- nanoseconds
	outcome   TEXT NOT NULL,
	operation TEXT NOT NULL,
	reason    TEXT NOT NULL,
	"values"  BLOB,                -- little-endian float64, parallel to the header's metrics; NULL unless ok
	applied   INTEGER REFERENCES applied,
	notes     TEXT, series BLOB, distributions TEXT, counted INTEGER NOT NULL DEFAULT 0, sum INTEGER,                -- JSON array; NULL where there are none
	PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO samples VALUES(1,0,0,0,'2026-11-20T09:30:00.123456789Z',0,'ok','','',X'000000000000f03f010000000000f87f',1,NULL,NULL,NULL,0,NULL);
INSERT INTO samples VALUES(1,1,0,1,'2026-11-20T09:30:01.123456789Z',1000000,'ok','','',X'000000000000e03f010000000000f87f',2,NULL,NULL,NULL,0,NULL);
INSERT INTO samples VALUES(1,2,1,0,'2026-11-20T09:30:02.123456789Z',2000000,'ok','','',X'555555555555d53f010000000000f87f',1,NULL,NULL,NULL,0,NULL);
INSERT INTO samples VALUES(1,3,1,1,'2026-11-20T09:30:03.123456789Z',3000000,'failed','total','create: no such file',NULL,2,NULL,NULL,NULL,0,NULL);
INSERT INTO samples VALUES(1,4,2,0,'2026-11-20T09:30:04.123456789Z',4000000,'ok','','',X'9a9999999999c93f010000000000f87f',1,NULL,NULL,NULL,0,NULL);
INSERT INTO samples VALUES(2,0,0,0,'2026-11-20T09:30:00.123456789Z',0,'ok','','',X'000000000000f03f010000000000f87f',1,NULL,NULL,NULL,0,NULL);
INSERT INTO samples VALUES(2,1,0,1,'2026-11-20T09:30:01.123456789Z',1000000,'ok','','',X'000000000000e03f010000000000f87f',2,NULL,NULL,NULL,0,NULL);
INSERT INTO samples VALUES(2,2,1,0,'2026-11-20T09:30:02.123456789Z',2000000,'ok','','',X'555555555555d53f010000000000f87f',1,NULL,NULL,NULL,0,NULL);
INSERT INTO samples VALUES(2,3,1,1,'2026-11-20T09:30:03.123456789Z',3000000,'failed','total','create: no such file',NULL,2,NULL,NULL,NULL,0,NULL);
INSERT INTO samples VALUES(2,4,2,0,'2026-11-20T09:30:04.123456789Z',4000000,'ok','','',X'9a9999999999c93f010000000000f87f',1,NULL,NULL,NULL,0,NULL);
INSERT INTO samples VALUES(3,0,0,0,'2026-11-20T09:30:00.123456789Z',0,'ok','','',X'000000000000f03f010000000000f87f',1,NULL,NULL,NULL,0,489892930);
INSERT INTO samples VALUES(3,1,0,1,'2026-11-20T09:30:01.123456789Z',1000000,'ok','','',X'000000000000e03f010000000000f87f',2,NULL,NULL,NULL,0,2223136901);
INSERT INTO samples VALUES(3,2,1,0,'2026-11-20T09:30:02.123456789Z',2000000,'ok','','',X'555555555555d53f010000000000f87f',1,NULL,NULL,NULL,0,2058740790);
INSERT INTO samples VALUES(3,3,1,1,'2026-11-20T09:30:03.123456789Z',3000000,'failed','total','create: no such file',NULL,2,NULL,NULL,NULL,0,1509886711);
INSERT INTO samples VALUES(3,4,2,0,'2026-11-20T09:30:04.123456789Z',4000000,'ok','','',X'9a9999999999c93f010000000000f87f',1,NULL,NULL,NULL,0,402960923);
INSERT INTO samples VALUES(3,5,2,1,'2026-11-20T09:30:05.123456789Z',5000000,'ok','','',X'555555555555c53f010000000000f87f',2,'["host-clock"]',NULL,NULL,0,1983595784);
INSERT INTO samples VALUES(3,6,3,0,'2026-11-20T09:30:06.123456789Z',6000000,'ok','','',X'922449922449c23f010000000000f87f',1,NULL,X'06637265617465030000000000000840555555555555c53f000000000000004006e697a5e69cac010000000000000000','[{"metric":"rtt","hdr":"HISTFAAAAB542pNpmSzMwMBgyQABzFCaEUoz2X+AMIoBVqsFKQ=="},{"metric":"日本","hdr":"AA=="}]',6000,2865653391);
INSERT INTO samples VALUES(3,7,3,1,'2026-11-20T09:30:07.123456789Z',7000000,'ok','','',X'000000000000c03f010000000000f87f',2,NULL,NULL,NULL,0,872267048);
CREATE TABLE resumptions (
	number INTEGER PRIMARY KEY,    -- in order
	run    INTEGER NOT NULL REFERENCES runs,
	json   TEXT NOT NULL
, sum INTEGER) STRICT;
INSERT INTO resumptions VALUES(1,1,'{"time":"2026-11-20T09:31:00.123456789Z","tool":"next","seq":2,"host":{"hostname":"here","machine_id":"","boot_id":"","os":"","kernel":"","arch":"","cpu":"","cpus":0,"memory_bytes":1099511627776,"cgroup":"","privileged":false}}',NULL);
INSERT INTO resumptions VALUES(2,2,'{"time":"2026-11-20T09:31:00.123456789Z","tool":"next","seq":2,"host":{"hostname":"here","machine_id":"","boot_id":"","os":"","kernel":"","arch":"","cpu":"","cpus":0,"memory_bytes":1099511627776,"cgroup":"","privileged":false}}',NULL);
INSERT INTO resumptions VALUES(3,3,'{"time":"2026-11-20T09:31:00.123456789Z","tool":"next","seq":2,"host":{"hostname":"here","machine_id":"","boot_id":"","os":"","kernel":"","arch":"","cpu":"","cpus":0,"memory_bytes":1099511627776,"cgroup":"","privileged":false}}',3577677428);
CREATE TABLE counts (
	run         INTEGER PRIMARY KEY REFERENCES runs,
	samples     INTEGER NOT NULL,
	resumptions INTEGER NOT NULL
) STRICT;
INSERT INTO counts VALUES(3,8,1);
CREATE INDEX runs_by_time ON runs (began, id);
CREATE INDEX failures ON samples (run) WHERE outcome IN ('failed', 'timed-out');
CREATE INDEX resumptions_of_run ON resumptions (run);
CREATE INDEX partial_failures ON samples (run)
	WHERE outcome = 'ok' AND instr(replace(notes, '\"', ''), '"part-failed: ') > 0;
CREATE TRIGGER run_counted AFTER INSERT ON runs WHEN new.sum IS NOT NULL BEGIN
	INSERT INTO counts VALUES (new.number, 0, 0);
END;
CREATE TRIGGER sample_counted AFTER INSERT ON samples BEGIN
	UPDATE counts SET samples = new.seq + 1 WHERE run = new.run;
END;
CREATE TRIGGER resumption_counted AFTER INSERT ON resumptions BEGIN
	UPDATE counts SET resumptions = resumptions + 1 WHERE run = new.run;
END;
PRAGMA application_id = 1952543333;
PRAGMA user_version = 5;
